//! The Vendi score: the effective number of distinct directions (Friedman & Dieng 2023).

use crate::markley::annul;

/// `ln(Vendi score) / ln n` of `n >= 2` directions with the given cosines: 0 if all alike, 1 if all different. The
/// `scratch` has room for `n * n` numbers.
pub(crate) fn spread(scratch: &mut [f64], n: usize, cosine: impl Fn(usize, usize) -> f64) -> f64 {
    let a = &mut scratch[..n * n];
    for i in 0..n {
        for j in 0..i {
            let value = (4.0 * (cosine(i, j).clamp(-1.0, 1.0) - 1.0)).exp() / n as f64;
            a[i * n + j] = value;
            a[j * n + i] = value;
        }
        a[i * n + i] = 1.0 / n as f64;
    }
    diagonalise(a, n);
    let entropy: f64 = (0..n)
        .map(|i| a[i * n + i])
        .filter(|&l| l > 0.0)
        .map(|l| -l * l.ln())
        .sum();
    (entropy / (n as f64).ln()).clamp(0.0, 1.0)
}

/// Cyclic Jacobi rotations: leaves the eigenvalues of a symmetric matrix on its diagonal.
fn diagonalise(a: &mut [f64], n: usize) {
    for _sweep in 0..30 {
        let mut off = 0.0;
        for p in 0..n {
            for q in p + 1..n {
                off += a[p * n + q] * a[p * n + q];
                annul(a, n, p, q);
            }
        }
        if off < 1e-30 {
            break;
        }
    }
}
