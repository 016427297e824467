"""On whom a release of several parties depends: how many must be honest and stay."""

from dataclasses import dataclass

from mrf_matrix.base.checks import shown


@dataclass(frozen=True)
class Quorum:
    """How many parties there are, how many may vanish, and how many may collude.

    Noise is shared among the parties who are certain to be there and to keep their share secret:
    ``s = parties - dropouts - colluders``. The sum may be opened only if ``parties - dropouts``
    parties contributed to it, for then at least s of them are honest.

    Attributes
    ----------
    parties : int
        k, at least 2.
    dropouts : int
        Parties that may vanish on the way without harm to the guarantee.
    colluders : int
        C, parties that may tell the server all they know.

    Raises
    ------
    ValueError
        If a number is negative or no honest party would be left.

    Examples
    --------
    >>> Quorum(10, 2, 1).honest, Quorum(10, 2, 1).threshold
    (7, 8)
    """

    parties: int
    dropouts: int = 0
    colluders: int = 0

    def __post_init__(self) -> None:
        for name, least in (("parties", 2), ("dropouts", 0), ("colluders", 0)):
            value = getattr(self, name)
            if type(value) is not int or not least <= value < 2**31:
                raise ValueError(
                    f"{name}={shown(value)}: expected a whole number from {least} to {2**31 - 1}."
                )
        if self.honest < 1:
            raise ValueError(
                f"parties={self.parties}, dropouts={self.dropouts}, colluders={self.colluders}: "
                f"no party is sure to stay and to be honest, so nobody's noise protects. Expected "
                f"dropouts + colluders below the number of parties."
            )

    @property
    def honest(self) -> int:
        """The least number s of honest parties whose noise is in an opened sum."""
        return self.parties - self.dropouts - self.colluders

    @property
    def threshold(self) -> int:
        """The least number of contributions of an opened sum: s + C."""
        return self.parties - self.dropouts

    @property
    def condition(self) -> str:
        """What the guarantee rests on, in words."""
        kept = "every party" if not self.dropouts else f"at least {self.threshold} parties"
        return (
            f"conditional on {kept} of {self.parties} contributing, of whom at most "
            f"{self.colluders} collude with a server that follows the protocol"
        )
