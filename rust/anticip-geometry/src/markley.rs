//! The mean rotation of a window: the top eigenvector of `sum q q^T` (Markley et al. 2007).
//!
//! The sums are kept in fixed point: 64-bit integers in units of `2^-48`. Integer sums do not depend on their order,
//! so frames can enter and leave forever without drift, and a fresh sum over the same window has the same bits. Sums
//! of 16,384 frames of products up to 1 take 62 bits; the unit costs a product 2e-15.

use crate::kernel::{LANES, POSE_GROUP};

/// Entries of the upper triangle of a symmetric 4 x 4 matrix.
const ENTRIES: usize = 10;
/// Row and column of each entry.
const INDEX: [(usize, usize); ENTRIES] = [
    (0, 0),
    (0, 1),
    (0, 2),
    (0, 3),
    (1, 1),
    (1, 2),
    (1, 3),
    (2, 2),
    (2, 3),
    (3, 3),
];
/// Adding this to a number in `[-1, 1]` leaves it, rounded to `2^-48`, in the mantissa.
const MAGIC: f64 = 24.0;
/// One unit of the sums.
const UNIT: f64 = 1.0 / (1u64 << 48) as f64;
/// Squarings before a joint is left to the slower solver: enough if the second eigenvalue is at most 0.59 of the
/// first.
const SQUARINGS: usize = 6;

type Sums = [[i64; LANES]; ENTRIES];
type Matrices = [[f64; LANES]; ENTRIES];

/// Running sums of a window for groups of eight joints.
#[derive(Clone, Debug)]
pub(crate) struct Markley {
    sums: Vec<Sums>,
}

impl Markley {
    pub(crate) fn new(groups: usize) -> Self {
        Self {
            sums: vec![[[0; LANES]; ENTRIES]; groups],
        }
    }

    pub(crate) fn clear(&mut self) {
        self.sums.fill([[0; LANES]; ENTRIES]);
    }

    /// Adds (`sign` 1) or removes (-1) a pose.
    #[inline(always)]
    pub(crate) fn update(&mut self, pose: &[f64], sign: i64) {
        for (sums, q) in self.sums.iter_mut().zip(pose.as_chunks::<POSE_GROUP>().0) {
            for (sum, (i, j)) in sums.iter_mut().zip(INDEX) {
                for l in 0..LANES {
                    let product = q[LANES * i + l] * q[LANES * j + l] + MAGIC;
                    let fixed = product.to_bits() as i64 - MAGIC.to_bits() as i64;
                    sum[l] += if sign < 0 { -fixed } else { fixed };
                }
            }
        }
    }

    /// Mean of the `n` poses in the sums; joints without a unique mean take `newest`'s rotation.
    #[inline(always)]
    pub(crate) fn mean(&self, n: usize, newest: &[f64], out: &mut [f64]) {
        let newest = newest.as_chunks::<POSE_GROUP>().0;
        let out = out.as_chunks_mut::<POSE_GROUP>().0;
        let scale = UNIT / n as f64;
        for ((sums, newest), out) in self.sums.iter().zip(newest).zip(out) {
            let mut matrix: Matrices = [[0.0; LANES]; ENTRIES];
            for (m, s) in matrix.iter_mut().zip(sums) {
                for l in 0..LANES {
                    m[l] = s[l] as f64 * scale;
                }
            }
            let mut power = matrix;
            for _ in 0..SQUARINGS {
                power = square(&power);
            }
            let remainder = residual(&power);
            for l in 0..LANES {
                let mean = if remainder[l] < 4e-15 {
                    Some(dominant_column(&power, l))
                } else {
                    top_eigenvector(&std::array::from_fn(|e| matrix[e][l]))
                };
                for i in 0..4 {
                    out[LANES * i + l] = mean.map_or(newest[LANES * i + l], |v| v[i]);
                }
            }
        }
    }
}

/// Squares eight symmetric matrices and scales them to trace 1.
#[inline(always)]
fn square(m: &Matrices) -> Matrices {
    let mut out = [[0.0; LANES]; ENTRIES];
    for (o, (i, j)) in out.iter_mut().zip(INDEX) {
        for l in 0..LANES {
            let at = |r: usize, c: usize| m[entry(r, c)][l];
            o[l] = (at(i, 0) * at(0, j) + at(i, 1) * at(1, j)) + (at(i, 2) * at(2, j) + at(i, 3) * at(3, j));
        }
    }
    let mut inverse = [0.0; LANES];
    for l in 0..LANES {
        inverse[l] = 1.0 / ((out[0][l] + out[4][l]) + (out[7][l] + out[9][l]));
    }
    for o in &mut out {
        for l in 0..LANES {
            o[l] *= inverse[l];
        }
    }
    out
}

/// Position of row `r`, column `c` in the upper triangle.
#[inline(always)]
const fn entry(r: usize, c: usize) -> usize {
    const TABLE: [[usize; 4]; 4] = [[0, 1, 2, 3], [1, 4, 5, 6], [2, 5, 7, 8], [3, 6, 8, 9]];
    TABLE[r][c]
}

/// One minus the squared Frobenius norm: zero if a trace-1 matrix has only one eigenvalue left.
#[inline(always)]
fn residual(m: &Matrices) -> [f64; LANES] {
    let mut out = [0.0; LANES];
    for l in 0..LANES {
        let square = |e: usize| m[e][l] * m[e][l];
        let diagonal = (square(0) + square(4)) + (square(7) + square(9));
        let rest = (square(1) + square(2)) + (square(3) + square(5)) + (square(6) + square(8));
        out[l] = (1.0 - (diagonal + 2.0 * rest)).abs();
    }
    out
}

/// The unit vector `v` of a rank-one `v v^T`, from its largest column.
#[inline(always)]
fn dominant_column(m: &Matrices, l: usize) -> [f64; 4] {
    let mut best = 0;
    for i in 1..4 {
        if m[entry(i, i)][l] > m[entry(best, best)][l] {
            best = i;
        }
    }
    unit(std::array::from_fn(|i| m[entry(i, best)][l]))
}

fn unit(v: [f64; 4]) -> [f64; 4] {
    let n = ((v[0] * v[0] + v[1] * v[1]) + (v[2] * v[2] + v[3] * v[3])).sqrt();
    v.map(|c| c / n)
}

/// The top eigenvector of a symmetric matrix of trace 1 by cyclic Jacobi rotations; `None` if the top two eigenvalues
/// differ by less than 1e-6, so that there is no unique mean.
#[inline(never)]
fn top_eigenvector(upper: &[f64; ENTRIES]) -> Option<[f64; 4]> {
    let mut a: [f64; 16] = std::array::from_fn(|i| upper[entry(i / 4, i % 4)]);
    let mut v: [[f64; 4]; 4] = std::array::from_fn(|r| std::array::from_fn(|c| f64::from(u8::from(r == c))));
    for _sweep in 0..16 {
        let mut off = 0.0;
        for (p, q) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
            off += a[4 * p + q] * a[4 * p + q];
            let Some((c, s)) = annul(&mut a, 4, p, q) else {
                continue;
            };
            for row in &mut v {
                (row[p], row[q]) = (c * row[p] - s * row[q], s * row[p] + c * row[q]);
            }
        }
        if off < 1e-34 {
            break;
        }
    }
    let mut top = 0;
    for i in 1..4 {
        if a[5 * i] > a[5 * top] {
            top = i;
        }
    }
    let second = (0..4)
        .filter(|&i| i != top)
        .map(|i| a[5 * i])
        .fold(f64::NEG_INFINITY, f64::max);
    (a[5 * top] - second >= 1e-6).then(|| unit(std::array::from_fn(|i| v[i][top])))
}

/// Zeroes the entries `p, q` and `q, p` of a symmetric `n` x `n` matrix by a Jacobi rotation; returns its cosine and
/// sine, `None` if they are zero already.
#[inline(always)] // where the size is known, the loops are unrolled
pub(crate) fn annul(a: &mut [f64], n: usize, p: usize, q: usize) -> Option<(f64, f64)> {
    let apq = a[p * n + q];
    if apq.abs() < 1e-300 {
        return None;
    }
    let theta = (a[q * n + q] - a[p * n + p]) / (2.0 * apq);
    let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
    let c = 1.0 / (t * t + 1.0).sqrt();
    let s = t * c;
    for i in 0..n {
        let (x, y) = (a[i * n + p], a[i * n + q]);
        (a[i * n + p], a[i * n + q]) = (c * x - s * y, s * x + c * y);
    }
    for i in 0..n {
        let (x, y) = (a[p * n + i], a[q * n + i]);
        (a[p * n + i], a[q * n + i]) = (c * x - s * y, s * x + c * y);
    }
    Some((c, s))
}
