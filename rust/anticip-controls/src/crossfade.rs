//! A fade from the current output to a live vector, without a jump.

/// Smoothstep on 0..1: flat at both ends, steepest slope 1.5.
pub(crate) fn ease(u: f64) -> f64 {
    let u = u.clamp(0.0, 1.0);
    u * u * (3.0 - 2.0 * u)
}

/// Replaces `to` by `from + w * (to - from)`.
pub(crate) fn mix(from: &[f64], to: &mut [f64], w: f64) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = from + w * (*to - from);
    }
}

/// Fades from a fixed vector to the live one.
#[derive(Debug, Clone)]
pub struct Crossfade {
    /// Duration in seconds.
    pub seconds: f64,
    from: Vec<f64>,
    elapsed_s: f64,
    running: bool,
}

impl Crossfade {
    /// A fade that has not started: the live vector passes unchanged.
    #[must_use]
    pub fn new(seconds: f64) -> Self {
        Self {
            seconds,
            from: Vec::new(),
            elapsed_s: 0.0,
            running: false,
        }
    }

    /// Starts from `current`, also when a fade is already running.
    pub fn start(&mut self, current: &[f64]) {
        self.from.clear();
        self.from.extend_from_slice(current);
        self.elapsed_s = 0.0;
        self.running = true;
    }

    /// Replaces `live` by the faded vector, `dt` seconds after the last step.
    pub fn step(&mut self, live: &mut [f64], dt: f64) {
        if !self.running {
            return;
        }
        self.elapsed_s += dt.max(0.0);
        if self.elapsed_s >= self.seconds {
            self.running = false;
        } else {
            mix(&self.from, live, ease(self.elapsed_s / self.seconds));
        }
    }
}
