"""A right solution of lesson 05, by other means than the table of exercises."""

import numpy as np


def kalman_gain(Sigma, H, R):
    info = np.linalg.inv(R)
    return np.linalg.inv(np.linalg.inv(Sigma) + H.T @ info @ H) @ H.T @ info


def kalman_update(mu, Sigma, H, R, y, yhat):
    K = kalman_gain(Sigma, H, R)
    A = np.eye(len(mu)) - K @ H
    return mu + K @ (y - yhat), A @ Sigma @ A.T + K @ R @ K.T


def bong_fc(mu, Sigma, g, S):
    new = np.linalg.inv(np.linalg.inv(Sigma) + S @ S.T)
    return new, mu + new @ g
