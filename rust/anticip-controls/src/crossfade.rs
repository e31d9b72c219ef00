//! From where an output stands to whatever comes now, without a jump.

/// Smoothstep on 0..1: flat at both ends, steepest slope 1.5.
pub(crate) fn ease(u: f64) -> f64 {
    let u = u.clamp(0.0, 1.0);
    u * u * (3.0 - 2.0 * u)
}

/// `to` becomes what lies `w` of the way from `from` to it.
pub(crate) fn mix(from: &[f64], to: &mut [f64], w: f64) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = from + w * (*to - from);
    }
}

/// Moves from a given vector to the live one within so many seconds.
#[derive(Debug, Clone)]
pub struct Crossfade {
    /// How long it takes.
    pub seconds: f64,
    from: Vec<f64>,
    at: f64,
    running: bool,
}

impl Crossfade {
    /// A fade that has not begun: the live vector passes unchanged.
    #[must_use]
    pub fn new(seconds: f64) -> Self {
        Self {
            seconds,
            from: Vec::new(),
            at: 0.0,
            running: false,
        }
    }

    /// Begins at `current`; a fade already running starts anew from there.
    pub fn start(&mut self, current: &[f64]) {
        self.from.clear();
        self.from.extend_from_slice(current);
        self.at = 0.0;
        self.running = true;
    }

    /// The live vector becomes the one that goes out, `dt` seconds on.
    pub fn step(&mut self, live: &mut [f64], dt: f64) {
        if !self.running {
            return;
        }
        self.at += dt.max(0.0);
        if self.at >= self.seconds {
            self.running = false;
        } else {
            mix(&self.from, live, ease(self.at / self.seconds));
        }
    }
}
