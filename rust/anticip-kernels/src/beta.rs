//! Draws from Beta distributions, as logarithms: with small parameters the draws themselves would underflow to 0.

use crate::plan::Random;

/// Minimum distance of scores from 0 and 1.
const MIN_SCORE: f64 = 1e-6;

/// A Beta distribution, prepared for drawing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beta {
    alpha: Gamma,
    beta: Gamma,
}

impl Beta {
    /// A distribution with these parameters, which must be positive.
    pub(crate) fn new(alpha: f64, beta: f64) -> Self {
        Self {
            alpha: Gamma::new(alpha),
            beta: Gamma::new(beta),
        }
    }

    /// The logarithm of a draw.
    pub(crate) fn log_draw(&self, random: &mut Random) -> f64 {
        let (first, second) = normals(random);
        let odds = self.beta.log_draw(random, second) - self.alpha.log_draw(random, first);
        // -ln(1 + e^odds), without overflow of e^odds
        let log_score = -(odds.max(0.0) + (-odds.abs()).exp().ln_1p());
        log_score.clamp(MIN_SCORE.ln(), (-MIN_SCORE).ln_1p())
    }
}

/// A gamma distribution, after Marsaglia and Tsang (2000).
#[derive(Clone, Copy, Debug)]
struct Gamma {
    d: f64,
    c: f64,
    log_d: f64,
    /// Exponent of the uniform number that a draw is multiplied by, for shapes below 1.
    power: Option<f64>,
}

impl Gamma {
    fn new(shape: f64) -> Self {
        let is_small = shape < 1.0;
        let d = if is_small { shape + 1.0 } else { shape } - 1.0 / 3.0;
        Self {
            d,
            c: (9.0 * d).sqrt().recip(),
            log_d: d.ln(),
            power: is_small.then(|| shape.recip()),
        }
    }

    /// The logarithm of a draw; `normal` is the first normal number to try.
    fn log_draw(&self, random: &mut Random, mut normal: f64) -> f64 {
        let log_cube = loop {
            let root = 1.0 + self.c * normal;
            // NaN passes.
            if root <= 0.0 {
                normal = normals(random).0;
                continue;
            }
            let (cube, square) = (root * root * root, normal * normal);
            let (unit, log_cube) = (random.unit(), 3.0 * root.ln());
            if unit < 1.0 - 0.0331 * square * square
                || unit.ln() < 0.5 * square + self.d * (1.0 - cube + log_cube)
            {
                break log_cube;
            }
            normal = normals(random).0;
        };
        let log_factor = self.power.map_or(0.0, |power| power * random.unit().ln());
        self.log_d + log_cube + log_factor
    }
}

/// Two normal numbers, by the polar method.
fn normals(random: &mut Random) -> (f64, f64) {
    loop {
        let (x, y) = (2.0 * random.unit() - 1.0, 2.0 * random.unit() - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            let scale = (-2.0 * square.ln() / square).sqrt();
            return (x * scale, y * scale);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Beta, MIN_SCORE};
    use crate::plan::Random;

    #[test]
    fn draws_have_mean_and_variance_of_the_distribution() {
        for (alpha, beta) in [(0.3, 0.7), (0.05, 3.0), (2.0, 60.0), (5.0, 0.5)] {
            let (given, mut random) = (Beta::new(alpha, beta), Random::new(3, 0));
            let draws: Vec<f64> = (0..200_000).map(|_| given.log_draw(&mut random).exp()).collect();
            let count = draws.len() as f64;
            let mean = draws.iter().sum::<f64>() / count;
            let square = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
            let sum = alpha + beta;
            let wanted = alpha * beta / (sum * sum * (sum + 1.0));
            assert!((mean - alpha / sum).abs() < 4.5 * (wanted / count).sqrt());
            assert!((square / wanted - 1.0).abs() < 0.05, "{square} {wanted}");
        }
    }

    #[test]
    fn draws_of_extreme_parameters_are_kept_off_both_ends() {
        let mut random = Random::new(3, 0);
        let (low, high) = (MIN_SCORE.ln(), (-MIN_SCORE).ln_1p());
        for _ in 0..1000 {
            assert!((low..=high).contains(&Beta::new(1e-3, 1e6).log_draw(&mut random)));
            assert!((low..=high).contains(&Beta::new(1e6, 1e-3).log_draw(&mut random)));
        }
        assert!(Beta::new(f64::NAN, 1.0).log_draw(&mut random).is_nan());
    }
}
