//! Ring buffer of the newest rows of a stream, and their mean.

use super::PARAMETER_COUNT;

/// The newest rows of `N` numbers, indexed by their position in the stream; all memory is allocated at construction.
#[derive(Debug, Clone)]
pub struct Ring<const N: usize> {
    rows: Vec<[f64; N]>,
    len: usize,
}

impl<const N: usize> Ring<N> {
    /// Creates a buffer for `capacity` rows, at least one.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            rows: vec![[0.0; N]; capacity],
            len: 0,
        }
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Number of rows pushed since the start; only the last of them are still held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no row was pushed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds the next row; replaces the oldest if full.
    pub fn push(&mut self, row: &[f64; N]) {
        let capacity = self.rows.len();
        self.rows[self.len % capacity] = *row;
        self.len += 1;
    }

    /// Row `index` of the stream, which must still be held.
    #[must_use]
    pub fn at(&self, index: usize) -> &[f64; N] {
        debug_assert!(index < self.len && index + self.rows.len() >= self.len);
        &self.rows[index % self.rows.len()]
    }

    /// The row `count` rows before the newest.
    #[must_use]
    pub fn ago(&self, count: usize) -> &[f64; N] {
        self.at(self.len - 1 - count)
    }
}

/// Running mean of the newest rows.
#[derive(Debug, Clone)]
pub struct Mean {
    rows: Ring<PARAMETER_COUNT>,
    span: usize,
    sum: [f64; PARAMETER_COUNT],
}

impl Mean {
    /// Mean of the newest `span` rows, or of fewer at the start.
    #[must_use]
    pub fn new(span: usize) -> Self {
        Self {
            rows: Ring::new(span),
            span,
            sum: [0.0; PARAMETER_COUNT],
        }
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.sum = [0.0; PARAMETER_COUNT];
    }

    /// Adds the next row.
    pub fn push(&mut self, row: &[f64; PARAMETER_COUNT]) {
        if self.rows.len() >= self.span {
            let leaving = self.rows.ago(self.span - 1);
            self.sum
                .iter_mut()
                .zip(leaving)
                .for_each(|(sum, old)| *sum -= old);
        }
        self.sum.iter_mut().zip(row).for_each(|(sum, new)| *sum += new);
        self.rows.push(row);
    }

    /// The mean; zeros before the first row.
    #[must_use]
    pub fn mean(&self) -> [f64; PARAMETER_COUNT] {
        let count = self.rows.len().min(self.span).max(1) as f64;
        self.sum.map(|sum| sum / count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_does_not_drift_in_a_show_of_hours() {
        let row = |frame: usize| -> [f64; PARAMETER_COUNT] {
            std::array::from_fn(|p| 0.5 + 0.5 * (0.37 * (frame * (p + 1)) as f64).sin())
        };
        let mut mean = Mean::new(200);
        for frame in 0..1_000_000 {
            mean.push(&row(frame));
        }
        for (p, mean) in mean.mean().into_iter().enumerate() {
            let exact = (999_800..1_000_000).map(|frame| row(frame)[p]).sum::<f64>() / 200.0;
            assert!((mean - exact).abs() < 1e-12, "{}", mean - exact);
        }
    }
}
