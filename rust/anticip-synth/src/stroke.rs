//! A new stroke of a sound that goes on, of a bow or of a breath: a gap, too short to be heard, and a push.

use crate::control::{FRAME, Line, Smoother};

/// How long the gap is and what sounds in it; how long the push takes to fall off. Seconds.
const GAP: f32 = 0.004;
const QUIET: f32 = 0.3;
const PUSH: f32 = 0.12;

/// The level of what is drawn: 1 while it goes on.
pub(crate) struct Stroke {
    follower: Smoother,
    /// By how much the push is louder.
    push: f32,
    since: f32,
    dt: f32,
}

impl Stroke {
    pub(crate) fn new(push: f32, sample_rate: f64) -> Self {
        let mut stroke = Self {
            follower: Smoother::new(0.003, sample_rate),
            push,
            since: 0.0,
            dt: (FRAME as f64 / sample_rate) as f32,
        };
        stroke.reset();
        stroke
    }

    pub(crate) fn reset(&mut self) {
        self.follower.jump(1.0);
        self.since = 1.0;
    }

    /// A stroke begins with the frame that is rendered next.
    pub(crate) fn begin(&mut self) {
        self.since = 0.0;
    }

    /// The level over a frame.
    pub(crate) fn frame(&mut self) -> Line {
        let goal = if self.since < GAP {
            QUIET
        } else {
            1.0 + self.push * (1.0 - (self.since - GAP) / PUSH).max(0.0)
        };
        self.since = (self.since + self.dt).min(1.0);
        self.follower.step(goal)
    }
}
