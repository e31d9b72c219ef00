//! Made-up input.

use anticip_kernels::{Dims, MOVES, Scan};

/// Numbers in (0, 1) that depend on a seed.
pub(crate) fn numbers(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 53) as f64 + 1e-3
        })
        .collect()
}

/// Groups of `width` that add up to one.
fn shares(seed: u64, groups: usize, width: usize) -> Vec<f64> {
    let mut all = numbers(seed, groups * width);
    for group in all.chunks_mut(width) {
        let sum: f64 = group.iter().sum();
        group.iter_mut().for_each(|x| *x /= sum);
    }
    all
}

/// Everything that goes into a scan.
pub(crate) struct Case {
    pub(crate) dims: Dims,
    pub(crate) moves: Vec<f64>,
    pub(crate) start: Vec<f64>,
    pub(crate) gamma: Option<Vec<f64>>,
    pub(crate) jumps: Option<Vec<f64>>,
}

impl Case {
    /// With jumps, a jumping cursor moves with half of its mass and jumps with the other half.
    pub(crate) fn new(seed: u64, dims: Dims, sharpening: bool) -> Self {
        let cursors = dims.batch * dims.cursors;
        let mut moves = shares(seed, cursors * dims.steps, MOVES);
        let long = dims.steps * MOVES;
        for (i, cursor) in moves.chunks_mut(long).enumerate() {
            if i % dims.cursors < dims.jumping {
                cursor.iter_mut().for_each(|w| *w *= 0.5);
            }
        }
        let mut jumps = shares(seed + 1, dims.batch * dims.jumping * dims.steps, dims.places);
        jumps.iter_mut().for_each(|p| *p *= 0.5);
        Self {
            dims,
            moves,
            start: shares(seed + 2, cursors, dims.places),
            gamma: sharpening.then(|| numbers(seed + 3, dims.cursors).iter().map(|g| 1.0 + g).collect()),
            jumps: (dims.jumping > 0).then_some(jumps),
        }
    }

    pub(crate) fn scan(&self) -> Scan<'_, f64> {
        Scan {
            dims: self.dims,
            moves: &self.moves,
            start: &self.start,
            gamma: self.gamma.as_deref(),
            jumps: self.jumps.as_deref(),
        }
    }

    pub(crate) fn run(&self) -> Vec<f64> {
        let d = self.dims;
        let mut out = vec![0.0; d.batch * d.cursors * d.steps * d.places];
        self.scan().forward(&mut out).unwrap();
        out
    }
}
