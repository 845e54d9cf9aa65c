"""A Gaussian process with Matern 5/2 covariance, and expected improvement, on plain arrays.

Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), sections 2.2 and 5.4.
Hyperparameters are the most probable ones given the data and weak priors. One length scale is
shared by the features of a group, as by the one-hot features of a choice.
"""

# N observations, M queries, F features, G groups, A pairs of observations

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, lapack, solve_triangular
from scipy.optimize import minimize
from scipy.special import erfcx, ndtr

from tuner.spec.space.encoding import Array

Groups = NDArray[np.int64]

_NOISE_FLOOR = 1e-9  # of the variance of the targets
_JITTER = 1e-10  # on the diagonal, so that it can be factorised
_MAX_FITTED = 200  # targets that hyperparameters are fitted to: the best and the latest
_SQRT5 = math.sqrt(5.0)

# Of the logarithms of the hyperparameters, for standardised targets. A length scale's mean grows
# with log(groups) / 2, as distances do (Hvarfner et al., 2024). Each is (mean, sd).
_PRIORS = {
    "scale": (-0.3, 1.0),
    "signal": (0.0, 1.0),
    "noise": (-9.0, 4.0),
}
_BOUNDS = {
    "scale": (-4.0, 5.0),
    "signal": (-4.0, 3.0),
    "noise": (math.log(_NOISE_FLOOR), 0.5),
}


class GaussianProcess:
    """A posterior over functions on [0, 1]^F; targets have zero mean and unit variance.

    groups_F: features of a group share a length scale. noise_N: known extra variance of each
    target.
    """

    def __init__(
        self,
        x_NF: Array,
        y_N: Array,
        groups_F: Groups,
        noise_N: Array | None = None,
    ) -> None:
        if noise_N is None:
            noise_N = np.zeros(len(y_N))
        rows = np.arange(len(y_N))
        if len(rows) > _MAX_FITTED:
            half = _MAX_FITTED // 2
            best = np.argsort(y_N, kind="stable")[:half]
            latest = rows[-half:]
            rows = np.union1d(best, latest)
        log_theta = _fit(
            x_NF[rows],
            y_N[rows],
            groups_F,
            noise_N[rows],
        )
        self.log_scales_G = log_theta[:-2]
        self.signal, self.noise = np.exp(log_theta[-2:])
        self._weights_F = np.exp(-self.log_scales_G)[groups_F]
        self._condition(x_NF, y_N, noise_N)

    def predict(self, x_MF: Array) -> tuple[Array, Array]:
        """(mean, standard deviation) of the function, without noise, at each query."""
        z_MF = x_MF * self._weights_F
        k_MN = self.signal * _matern(compute_squared_distances(z_MF, self._z_NF))
        mean_M = k_MN @ self._alpha_N
        v_NM = solve_triangular(
            self._chol_NN,
            k_MN.T,
            lower=True,
            check_finite=False,
        )
        variance_M = self.signal - np.einsum("nm,nm->m", v_NM, v_NM)
        sd_M = np.sqrt(np.maximum(variance_M, 1e-12))
        return mean_M, sd_M

    def believe(self, x_MF: Array) -> None:
        """Condition on the means at the queries, as if observed (Ginsbourger et al., 2010)."""
        if len(x_MF) == 0:
            return
        mean_M, _ = self.predict(x_MF)
        x_NF = np.concatenate([self._x_NF, x_MF])
        y_N = np.concatenate([self._y_N, mean_M])
        noise_N = np.append(self._noise_N, np.zeros(len(x_MF)))
        self._condition(x_NF, y_N, noise_N)

    def _condition(
        self,
        x_NF: Array,
        y_N: Array,
        noise_N: Array,
    ) -> None:
        self._x_NF = x_NF
        self._y_N = y_N
        self._noise_N = noise_N
        self._z_NF = x_NF * self._weights_F
        k_NN = self.signal * _matern(compute_squared_distances(self._z_NF, self._z_NF))
        k_NN[np.diag_indices_from(k_NN)] += self.noise + noise_N + _JITTER
        self._chol_NN = _cholesky(k_NN)
        self._alpha_N = cho_solve(
            (self._chol_NN, True),
            y_N,
            check_finite=False,
        )


def log_expected_improvement(mean_M: Array, sd_M: Array, best: float) -> Array:
    """log E[max(best - f, 0)] of normal f, exact far out in the tail (Ament et al., 2023)."""
    z = (best - mean_M) / sd_M
    near = np.maximum(z, -1.0)
    density = np.exp(-0.5 * near**2) / math.sqrt(2 * math.pi)
    log_near = np.log(density + near * ndtr(near))
    far = np.clip(z, -1e6, -1.0)
    ratio = far * math.sqrt(math.pi / 2)
    ratio *= erfcx(-far / math.sqrt(2))
    log_tail = np.where(
        far > -1e3,
        np.log1p(np.maximum(ratio, -1 + 1e-15)),
        -2 * np.log(-far),
    )
    log_far = -0.5 * far**2 - 0.5 * math.log(2 * math.pi)
    log_far += log_tail
    log_ratio_M = np.where(z > -1.0, log_near, log_far)
    return np.log(sd_M) + log_ratio_M


def _fit(
    x_NF: Array,
    y_N: Array,
    groups_F: Groups,
    noise_N: Array,
) -> Array:
    """The most probable logarithms of (length scales, signal variance, noise variance)."""
    count = len(y_N)
    groups = 0
    if len(groups_F):
        groups = int(groups_F.max()) + 1
    # A half of the matrices, since they are symmetric
    i_A, j_A = np.tril_indices(count, -1)
    at_A = i_A * count + j_A
    distances = []
    for group in range(groups):
        group_NF = x_NF[:, groups_F == group]
        squared_NN = compute_squared_distances(group_NF, group_NF)
        distances.append(squared_NN[i_A, j_A])
    d_GA = np.stack(distances)
    scale, scale_sd = _PRIORS["scale"]
    signal, signal_sd = _PRIORS["signal"]
    noise, noise_sd = _PRIORS["noise"]
    scale += 0.5 * math.log(groups)
    means = np.array([scale] * groups + [signal, noise])
    sds = np.array([scale_sd] * groups + [signal_sd, noise_sd])
    diagonal = np.diag_indices(count)

    def compute_loss(log_theta: Array) -> tuple[float, Array]:
        weights_G = np.exp(-2 * log_theta[:groups])
        signal, noise = np.exp(log_theta[groups:])
        squared_A = weights_G @ d_GA
        root_A = _SQRT5 * np.sqrt(squared_A)
        decay_A = signal * np.exp(-root_A)
        k_A = 1 + root_A + (5 / 3) * squared_A
        k_A *= decay_A
        k_NN = np.zeros((count, count))
        np.put(k_NN, at_A, k_A)
        k_NN[diagonal] = signal + noise + noise_N + _JITTER
        chol_NN, failed = lapack.dpotrf(k_NN, lower=1, clean=1)
        if failed:
            return 1e25, np.zeros_like(log_theta)
        alpha_N = cho_solve(
            (chol_NN, True),
            y_N,
            check_finite=False,
        )
        inverse_NN, _ = lapack.dpotri(chol_NN, lower=1)
        away = log_theta - means
        away /= sds
        loss = 0.5 * y_N @ alpha_N
        loss += np.log(chol_NN[diagonal]).sum()
        loss += 0.5 * away @ away
        slope_A = inverse_NN.take(at_A)
        slope_A -= alpha_N[i_A] * alpha_N[j_A]
        slope_N = inverse_NN[diagonal] - alpha_N**2
        by_squared_A = slope_A * (1 + root_A) * decay_A
        by_scale_G = (5 / 3) * (d_GA @ by_squared_A) * weights_G
        by_signal = slope_A @ k_A
        by_signal += 0.5 * signal * slope_N.sum()
        by_noise = 0.5 * noise * slope_N.sum()
        gradient = np.concatenate([by_scale_G, [by_signal, by_noise]])
        gradient += away / sds
        return float(loss), gradient

    bounds = [_BOUNDS["scale"]] * groups
    bounds += [_BOUNDS["signal"], _BOUNDS["noise"]]
    noisy = means.copy()
    noisy[-1] += 4.0
    fits = [
        minimize(
            compute_loss,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": 50},
        )
        for start in (means, noisy)
    ]
    best_fit = min(fits, key=lambda fit: float(fit.fun))
    log_theta: Array = best_fit.x
    return log_theta


def compute_squared_distances(a_NF: Array, b_MF: Array) -> Array:
    """distance_NM, of each of the N points from each of the M."""
    if len(b_MF):
        # centred, so that little is lost where points lie close together
        centre_F = b_MF.mean(axis=0)
        a_NF = a_NF - centre_F
        b_MF = b_MF - centre_F
    a_N = (a_NF**2).sum(1)
    b_M = (b_MF**2).sum(1)
    squared_NM = a_N[:, None] + b_M[None, :]
    squared_NM -= 2 * a_NF @ b_MF.T
    return np.asarray(np.maximum(squared_NM, 0.0))


def _matern(squared_NM: Array) -> Array:
    root_NM = _SQRT5 * np.sqrt(squared_NM)
    covariance_NM = (5 / 3) * squared_NM
    covariance_NM += root_NM  # in place: other matrices of this size cost a third more
    covariance_NM += 1
    np.negative(root_NM, out=root_NM)
    np.exp(root_NM, out=root_NM)
    covariance_NM *= root_NM
    return np.asarray(covariance_NM)


def _cholesky(k_NN: Array) -> Array:
    jitter = 0.0
    while True:
        try:
            chol_NN = cholesky(k_NN + jitter * np.eye(len(k_NN)), lower=True)
        except np.linalg.LinAlgError:
            jitter = max(jitter * 10, 1e-8 * float(k_NN[0, 0]))
        else:
            return np.asarray(chol_NN)
