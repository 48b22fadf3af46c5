"""Operators that nnefc does not compute, with the reasons."""

from __future__ import annotations

from nnefc.frontends.torch.registry import refuse


def _overloads(*names: str) -> list[str]:
    """Names of operators, `.default` where no overload is named."""
    return [f"aten.{name}" if "." in name else f"aten.{name}.default" for name in names]


refuse(
    "random numbers are not supported",
    *_overloads(
        *("rand", "rand_like", "randn", "randn_like", "randint", "randint.low", "randint_like"),
        *("randint_like.low_dtype", "randperm", "bernoulli", "bernoulli.p", "uniform", "normal"),
        *("normal.float_float", "normal.Tensor_float", "normal.float_Tensor", "multinomial"),
        *("normal.Tensor_Tensor", "normal_functional", "exponential", "geometric", "cauchy"),
        *("log_normal", "poisson", "binomial", "_standard_gamma", "_sample_dirichlet", "random"),
        *("random.from", "random.to"),
    ),
)
refuse(
    "dropout is active: call module.eval() first",
    *_overloads("native_dropout", "_fused_dropout", "bernoulli_.float"),
)
refuse(
    "gradients are not computed",
    *_overloads(
        *("_adaptive_avg_pool2d_backward", "avg_pool2d_backward", "convolution_backward"),
        *("embedding_dense_backward", "max_pool2d_with_indices_backward"),
        *("native_group_norm_backward", "native_layer_norm_backward"),
    ),
)
refuse(
    "transforms with windows are decomposed by PyTorch: call run_decompositions first",
    *_overloads("stft", "istft"),
)
refuse(
    "factorisations of matrices are not supported",
    *_overloads(
        *("_linalg_svd", "_linalg_eigh", "_linalg_eigvals", "_linalg_det", "_linalg_slogdet"),
        *("_linalg_solve_ex", "linalg_lu_factor_ex", "linalg_lu", "linalg_lu_solve"),
        *("linalg_inv_ex", "linalg_qr", "linalg_eig", "linalg_cholesky_ex", "linalg_ldl_solve"),
        *("linalg_ldl_factor_ex", "linalg_lstsq", "linalg_householder_product", "ormqr"),
        *("linalg_matrix_exp", "linalg_pinv.atol_rtol_tensor", "linalg_solve_triangular"),
        *("cholesky", "cholesky_inverse", "cholesky_solve", "geqrf", "triangular_solve"),
        *("lu_unpack", "_linalg_check_errors", "_linalg_eigvals"),
    ),
)
refuse(
    "this special function is not supported",
    *_overloads(
        *("special_erfcx", "special_zeta", "special_ndtri", "special_log_ndtr", "i0", "igamma"),
        *("special_i0e", "special_i1", "special_i1e", "igammac", "special_airy_ai"),
        *("special_bessel_j0", "special_bessel_j1", "special_bessel_y0", "special_bessel_y1"),
        *("special_modified_bessel_i0", "special_modified_bessel_i1", "nextafter", "frexp.Tensor"),
        *("special_modified_bessel_k0", "special_modified_bessel_k1", "gcd", "lcm"),
        *("special_scaled_modified_bessel_k0", "special_scaled_modified_bessel_k1"),
        "special_spherical_bessel_j0",
        *(
            f"special_{name}_polynomial_{kind}"
            for name, kinds in (
                ("chebyshev", "tuvw"),
                ("shifted_chebyshev", "tuvw"),
                ("hermite", ("h", "he")),
                ("laguerre", "l"),
                ("legendre", "p"),
            )
            for kind in kinds
        ),
    ),
)
refuse(
    "the extent of its result depends on the values of its inputs",
    *_overloads(
        *("bincount", "unique_dim", "unique_consecutive", "unique_dim_consecutive"),
        *("combinations", "_unique2", "_unique"),
    ),
)
refuse(
    "its result depends on memory, which nnefc does not have",
    *_overloads("resize", "resize_as", "set.source_Tensor", "hash_tensor"),
)
refuse(
    "the program is not decomposed: call its run_decompositions first",
    *(f"higher_order.wrap_with_{mode}" for mode in ("set_grad_enabled", "autocast")),
)
