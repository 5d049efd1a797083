"""Storage of the row filter's covariances: small ones as whole matrices, large ones as triangles.

A row by itself needs one product with every covariance, and such a product waits for memory.
"""

import numpy as np
from jaxtyping import Float

from streamgp.filters.engine.blas import Matrices, Number
from streamgp.filters.engine.block_covariances import LARGE
from streamgp.numerics.native import address
from streamgp.numerics.threads import one_blas_thread


class Whole:
    """Covariances of G x R experts as they are: one call of NumPy works through all of them."""

    def __init__(self, cov: Float[np.ndarray, "g r f f"]) -> None:
        self._cov = np.array(cov, order="C")

    @property
    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """Return where each begins, and whether of its triangles the lower one alone is to be read."""
        (G, R), size = self._cov.shape[:2], self._cov.strides[1]
        return address(self._cov) + size * np.arange(G * R, dtype=np.uintp), np.zeros(G * R, np.uint8)

    def product(self, phi: Float[np.ndarray, "*g f"]) -> Float[np.ndarray, "g r f"]:
        """Multiply each with the features of its g, or with the same ones."""
        return (self._cov @ phi[..., None, :, None])[..., 0]

    def fold(
        self,
        waiting: Float[np.ndarray, "g r n f"],
        decay: Float[np.ndarray, "g r"] | None,
        added: Float[np.ndarray, "g r"] | None,
    ) -> None:
        """Replace each by ``decay^2 (cov - waiting' waiting) + added I``; None leaves that part out."""
        # Two threads would wait for each other, up to a hundred times as long on a busy machine.
        with one_blas_thread():
            self._cov -= np.swapaxes(waiting, -1, -2) @ waiting
        if decay is not None:
            self._cov *= (decay * decay)[..., None, None]
        if added is not None:
            diagonal = self._cov.reshape(*self._cov.shape[:2], -1)[:, :, :: self._cov.shape[-1] + 1]
            diagonal += added[..., None]

    def get(self, expert: tuple[int, ...]) -> Float[np.ndarray, "f f"]:
        """Return a copy of one."""
        return self._cov[expert].copy()

    def put(self, expert: tuple[int, ...], cov: Float[np.ndarray, "f f"]) -> None:
        """Replace one."""
        self._cov[expert] = cov

    def all(self) -> Float[np.ndarray, "g r f f"]:
        """Return a copy of all."""
        return self._cov.copy()


class Triangles:
    """A triangle of each covariance, two to a rectangle (F + 1) x F: half of the memory, and none of it skipped.

    The first of two has the upper triangle from the first row on, the second the lower one from the second row on.
    """

    def __init__(self, cov: Float[np.ndarray, "g r f f"]) -> None:
        (G, R, F, _), experts = cov.shape, list(np.ndindex(cov.shape[:2]))
        self._shape, self._size = (G, R, F), F * cov.itemsize
        self._blas = Matrices(F, 1, 0)
        self._upper = np.triu(np.ones((F, F), bool))
        pairs = np.zeros((-(-len(experts) // 2), F + 1, F))
        self._each = {expert: (pairs[i // 2, i % 2 : F + i % 2], bool(i % 2)) for i, expert in enumerate(experts)}
        self._at = [(address(square), is_lower) for square, is_lower in self._each.values()]
        for expert in experts:
            self.put(expert, cov[expert])

    @property
    def places(self) -> tuple[np.ndarray, np.ndarray]:
        """See `Whole`."""
        at, is_lower = zip(*self._at, strict=True)
        return np.array(at, np.uintp), np.array(is_lower, np.uint8)

    def product(self, phi: Float[np.ndarray, "*g f"]) -> Float[np.ndarray, "g r f"]:
        """See `Whole`."""
        G, R, F = self._shape
        phi, product = np.ascontiguousarray(np.broadcast_to(phi, (G, F))), np.empty(self._shape)
        phi_at, product_at = address(phi), address(product)
        for i, (at, is_lower) in enumerate(self._at):
            self._blas.symmetric_vector(at, phi_at + i // R * self._size, product_at + i * self._size, is_lower)
        return product

    def fold(
        self,
        waiting: Float[np.ndarray, "g r n f"],
        decay: Float[np.ndarray, "g r"] | None,
        added: Float[np.ndarray, "g r"] | None,
    ) -> None:
        """See `Whole`."""
        G, R, F = self._shape
        decay, added = np.ones((G, R)) if decay is None else decay, np.zeros((G, R)) if added is None else added
        scaled, blas = waiting * decay[..., None, None], Matrices(F, waiting.shape[2], 0)
        with one_blas_thread():
            for (expert, (square, is_lower)), (at, _) in zip(self._each.items(), self._at, strict=True):
                blas.downdate(address(scaled[expert]), Number(float(decay[expert]) ** 2), at, is_lower)
                square.reshape(-1)[:: F + 1] += added[expert]

    def get(self, expert: tuple[int, ...]) -> Float[np.ndarray, "f f"]:
        """See `Whole`."""
        square, is_lower = self._each[expert]
        return np.where(self._upper.T if is_lower else self._upper, square, square.T)

    def put(self, expert: tuple[int, ...], cov: Float[np.ndarray, "f f"]) -> None:
        """See `Whole`."""
        square, is_lower = self._each[expert]
        np.copyto(square, cov, where=self._upper.T if is_lower else self._upper)

    def all(self) -> Float[np.ndarray, "g r f f"]:
        """See `Whole`."""
        G, R, F = self._shape
        return np.stack([self.get(expert) for expert in self._each]).reshape(G, R, F, F)


def covariances(cov: Float[np.ndarray, "g r f f"]) -> Whole | Triangles:
    """Return a copy of covariances, kept as suits their size."""
    return Triangles(cov) if cov.shape[-1] >= LARGE else Whole(cov)
