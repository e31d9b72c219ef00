//! The inference rule of the commitment gate.

/// Whether the gate lets out what has waited for `waited` frames: at `g > theta (1 - 0.5 n / most)`, or n >= most.
pub(crate) fn opens(theta: f64, most: u32, waited: u32, gate: f64) -> bool {
    gate > theta * (1.0 - 0.5 * f64::from(waited) / f64::from(most)) || waited >= most
}

/// Says which frames may emit, and counts those that may not.
#[derive(Debug, Clone)]
pub struct Commitment {
    theta: f64,
    most: u32,
    /// Frames held back so far.
    pub waited: u32,
}

impl Commitment {
    /// `theta` in 0..1; `most` frames are held back at most.
    #[must_use]
    pub fn new(theta: f64, most: u32) -> Self {
        Self {
            theta,
            most: most.max(1),
            waited: 0,
        }
    }

    /// Whether this frame may emit.
    pub fn decide(&mut self, gate: f64) -> bool {
        let emit = opens(self.theta, self.most, self.waited, gate);
        self.waited = if emit { 0 } else { self.waited.saturating_add(1) };
        emit
    }
}
