//! A linear correction of the model, learned while playing, from how simple rival forecasts differ from it.
//!
//! Ridge regression of the model's error on the rivals' differences from the model, by recursive least
//! squares with forgetting (errors count half after the mixing's half-life). It starts as no correction; the
//! ridge is in proportion to how far rivals and model differ, so that small movements are corrected like
//! large ones.

/// Number of rivals.
pub(crate) const RIVALS: usize = 4;
/// Weight of the prior (no correction), in frames.
const PRIOR_FRAMES: f64 = 300.0;
/// Squared difference of rivals and model below which nothing is learned.
const MIN_POWER: f64 = 1e-7;

/// Difference of each rival from the model.
pub(crate) type Differences = [f64; RIVALS];

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Correction {
    /// Discounted sums of products of the differences (lower triangle).
    products: [[f64; RIVALS]; RIVALS],
    /// Discounted sums of products of the differences with the model's error.
    error_products: Differences,
    /// Coefficient of each difference in the correction.
    coefficients: Differences,
}

impl Correction {
    /// Adds a frame: the model was off by `error`, and the rivals differed from it by `differences`.
    pub(crate) fn learn(&mut self, decay: f64, differences: &Differences, error: f64) {
        for (row, (products, sum)) in self.products.iter_mut().zip(&mut self.error_products).enumerate() {
            for (product, x) in products[..=row].iter_mut().zip(differences) {
                *product = decay * *product + differences[row] * x;
            }
            *sum = decay * *sum + differences[row] * error;
        }
    }

    /// Solves for the coefficients after `count` frames, by Cholesky decomposition.
    pub(crate) fn solve(&mut self, count: f64) {
        let power: f64 = (0..RIVALS).map(|i| self.products[i][i]).sum();
        let ridge = PRIOR_FRAMES * power / (RIVALS as f64 * count.max(1.0)) + MIN_POWER;
        let mut lower = self.products;
        let mut coefficients = self.error_products;
        for i in 0..RIVALS {
            lower[i][i] += ridge;
            for j in 0..=i {
                let sum: f64 = (0..j).map(|k| lower[i][k] * lower[j][k]).sum();
                let residual = lower[i][j] - sum;
                lower[i][j] = if i == j {
                    residual.sqrt()
                } else {
                    residual / lower[j][j]
                };
            }
            let sum: f64 = (0..i).map(|k| lower[i][k] * coefficients[k]).sum();
            coefficients[i] = (coefficients[i] - sum) / lower[i][i];
        }
        for i in (0..RIVALS).rev() {
            let sum: f64 = (i + 1..RIVALS).map(|k| lower[k][i] * coefficients[k]).sum();
            coefficients[i] = (coefficients[i] - sum) / lower[i][i];
        }
        self.coefficients = coefficients;
    }

    /// The correction to add to the model.
    pub(crate) fn correction(&self, differences: &Differences) -> f64 {
        self.coefficients
            .iter()
            .zip(differences)
            .map(|(coefficient, x)| coefficient * x)
            .sum()
    }

    /// The share of the corrected value that comes from the model, 0..1.
    pub(crate) fn model_share(&self) -> f64 {
        (1.0 - self.coefficients.iter().sum::<f64>()).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pseudo-random differences of about `size`.
    fn differences(frame: usize, size: f64) -> Differences {
        std::array::from_fn(|k| size * (frame as f64 * [0.37, 1.1, 2.3, 0.71][k] + k as f64).sin())
    }

    fn learned(size: f64, frames: usize, truth: &Differences) -> Correction {
        let mut correction = Correction::default();
        for frame in 0..frames {
            let x = differences(frame, size);
            let error = truth.iter().zip(&x).map(|(coefficient, x)| coefficient * x).sum();
            correction.learn(1.0, &x, error);
        }
        correction.solve(frames as f64);
        correction
    }

    #[test]
    fn it_begins_as_none_and_finds_what_the_model_is_off_by() {
        assert_eq!(Correction::default().correction(&[1.0; RIVALS]), 0.0);
        assert_eq!(Correction::default().model_share(), 1.0);
        let truth = [0.5, -0.2, 0.1, 0.3];
        let correction = learned(0.3, 100_000, &truth);
        for (coefficient, expected) in correction.coefficients.iter().zip(truth) {
            assert!((coefficient - expected).abs() < 0.01, "{coefficient} {expected}");
        }
        assert!((correction.model_share() - 0.3).abs() < 0.02);
        let early = learned(0.3, 30, &truth);
        assert!(
            early.coefficients[0] > 0.0 && early.coefficients[0] < 0.2,
            "{:?}",
            early.coefficients
        );
    }

    #[test]
    fn small_movement_is_corrected_as_large_movement_is() {
        let truth = [0.4, 0.0, -0.1, 0.2];
        let (large, small) = (learned(0.3, 400, &truth), learned(0.03, 400, &truth));
        for (large, small) in large.coefficients.iter().zip(small.coefficients) {
            assert!((large - small).abs() < 1e-3, "{large} {small}");
        }
    }

    #[test]
    fn where_all_say_the_same_nothing_is_learned() {
        let mut correction = Correction::default();
        for _ in 0..1000 {
            correction.learn(0.99, &[0.0; RIVALS], 0.1);
        }
        correction.solve(100.0);
        assert_eq!(correction.correction(&[0.0; RIVALS]), 0.0);
    }
}
