"""Integer noise with an exact law: discrete Laplace, discrete Gaussian, and none."""
