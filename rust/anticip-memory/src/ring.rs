//! The newest rows of a stream, and their mean.

use crate::PARAMETER_COUNT;

/// The newest rows of `N` numbers, each known by its place in the stream; all memory is taken at the start.
#[derive(Debug, Clone)]
pub(crate) struct Ring<const N: usize> {
    rows: Vec<[f64; N]>,
    len: usize,
}

impl<const N: usize> Ring<N> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            rows: vec![[0.0; N]; capacity],
            len: 0,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// How many rows came since the start; the last of them are still there.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push(&mut self, row: &[f64; N]) {
        let capacity = self.rows.len();
        self.rows[self.len % capacity] = *row;
        self.len += 1;
    }

    /// Row `index` of the stream.
    pub(crate) fn at(&self, index: usize) -> &[f64; N] {
        debug_assert!(index < self.len && index + self.rows.len() >= self.len);
        &self.rows[index % self.rows.len()]
    }

    /// The row that came `count` rows before the newest.
    pub(crate) fn ago(&self, count: usize) -> &[f64; N] {
        self.at(self.len - 1 - count)
    }
}

/// The mean of the newest rows.
#[derive(Debug, Clone)]
pub(crate) struct Mean {
    rows: Ring<PARAMETER_COUNT>,
    span: usize,
    sum: [f64; PARAMETER_COUNT],
}

impl Mean {
    pub(crate) fn new(span: usize) -> Self {
        Self {
            rows: Ring::new(span),
            span,
            sum: [0.0; PARAMETER_COUNT],
        }
    }

    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.sum = [0.0; PARAMETER_COUNT];
    }

    pub(crate) fn push(&mut self, row: &[f64; PARAMETER_COUNT]) {
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

    pub(crate) fn mean(&self) -> [f64; PARAMETER_COUNT] {
        let count = self.rows.len().min(self.span).max(1) as f64;
        self.sum.map(|sum| sum / count)
    }
}
