//! What the model is off by, as far as plain rivals tell it: a linear correction that is learned while one plays.
//!
//! Ridge regression of what came, less what the model said, on how far each rival was from the model; errors count
//! half after the mixing's half-life (recursive least squares with forgetting). It begins as no correction, and what
//! pulls it there is in proportion to how far rivals and model are apart: a small movement is corrected as a large one.

/// How many rivals tell it.
pub(crate) const TELLERS: usize = 4;
/// How many frames what was believed before is worth.
const PULL: f64 = 300.0;
/// Squared distance of rivals and model under which there is nothing to learn.
const TINY: f64 = 1e-7;

/// How far each rival is from the model.
pub(crate) type Apart = [f64; TELLERS];

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Correction {
    /// Discounted sums of products of the distances, below the diagonal and on it, and of these with what the model was
    /// off.
    products: [[f64; TELLERS]; TELLERS],
    off: Apart,
    /// By how much of each distance the model is corrected.
    shares: Apart,
}

impl Correction {
    /// The model was off by `off`, and rivals by `apart` from it.
    pub(crate) fn learn(&mut self, decay: f64, apart: &Apart, off: f64) {
        for (row, (products, sum)) in self.products.iter_mut().zip(&mut self.off).enumerate() {
            for (product, x) in products[..=row].iter_mut().zip(apart) {
                *product = decay * *product + apart[row] * x;
            }
            *sum = decay * *sum + apart[row] * off;
        }
    }

    /// Believes what was learned of `count` frames, by Cholesky's decomposition.
    pub(crate) fn believe(&mut self, count: f64) {
        let power: f64 = (0..TELLERS).map(|i| self.products[i][i]).sum();
        let pull = PULL * power / (TELLERS as f64 * count.max(1.0)) + TINY;
        let mut lower = self.products;
        let mut shares = self.off;
        for i in 0..TELLERS {
            lower[i][i] += pull;
            for j in 0..=i {
                let sum: f64 = (0..j).map(|k| lower[i][k] * lower[j][k]).sum();
                let left = lower[i][j] - sum;
                lower[i][j] = if i == j { left.sqrt() } else { left / lower[j][j] };
            }
            let sum: f64 = (0..i).map(|k| lower[i][k] * shares[k]).sum();
            shares[i] = (shares[i] - sum) / lower[i][i];
        }
        for i in (0..TELLERS).rev() {
            let sum: f64 = (i + 1..TELLERS).map(|k| lower[k][i] * shares[k]).sum();
            shares[i] = (shares[i] - sum) / lower[i][i];
        }
        self.shares = shares;
    }

    /// What is added to the model.
    pub(crate) fn of(&self, apart: &Apart) -> f64 {
        self.shares.iter().zip(apart).map(|(share, x)| share * x).sum()
    }

    /// What share of the sum is the model's, 0..1.
    pub(crate) fn kept(&self) -> f64 {
        (1.0 - self.shares.iter().sum::<f64>()).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distances that follow no rule, of about `size`.
    fn apart(frame: usize, size: f64) -> Apart {
        std::array::from_fn(|k| size * (frame as f64 * [0.37, 1.1, 2.3, 0.71][k] + k as f64).sin())
    }

    fn learned(size: f64, frames: usize, truth: &Apart) -> Correction {
        let mut correction = Correction::default();
        for frame in 0..frames {
            let x = apart(frame, size);
            let off = truth.iter().zip(&x).map(|(share, x)| share * x).sum();
            correction.learn(1.0, &x, off);
        }
        correction.believe(frames as f64);
        correction
    }

    #[test]
    fn it_begins_as_none_and_finds_what_the_model_is_off_by() {
        assert_eq!(Correction::default().of(&[1.0; TELLERS]), 0.0);
        assert_eq!(Correction::default().kept(), 1.0);
        let truth = [0.5, -0.2, 0.1, 0.3];
        let found = learned(0.3, 100_000, &truth);
        for (found, wanted) in found.shares.iter().zip(truth) {
            assert!((found - wanted).abs() < 0.01, "{found} {wanted}");
        }
        assert!((found.kept() - 0.3).abs() < 0.02);
        let early = learned(0.3, 30, &truth);
        assert!(
            early.shares[0] > 0.0 && early.shares[0] < 0.2,
            "{:?}",
            early.shares
        );
    }

    #[test]
    fn small_movement_is_corrected_as_large_movement_is() {
        let truth = [0.4, 0.0, -0.1, 0.2];
        let (large, small) = (learned(0.3, 400, &truth), learned(0.03, 400, &truth));
        for (large, small) in large.shares.iter().zip(small.shares) {
            assert!((large - small).abs() < 1e-3, "{large} {small}");
        }
    }

    #[test]
    fn where_all_say_the_same_nothing_is_learned() {
        let mut correction = Correction::default();
        for _ in 0..1000 {
            correction.learn(0.99, &[0.0; TELLERS], 0.1);
        }
        correction.believe(100.0);
        assert_eq!(correction.of(&[0.0; TELLERS]), 0.0);
    }
}
