"""How anything is released: a plan's steps, who takes them, what they told, and what follows."""
