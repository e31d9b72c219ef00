//! The teacher's causal twin: the same measures computed from the past alone, frame by frame.
//!
//! It is what an instrument without a model would play: backward instead of central differences, one-pole low-passes
//! instead of Gaussians, and the stretch before the frame instead of the one around it.

pub mod body;
mod columns;
mod low_pass;
pub mod measures;
mod ring;

use pulp::Arch;

use body::{Body, POSITION_SIZE, PULSE_SIZE, Rotations, SMOOTHED_SIZE, Vector};
pub use columns::{TWIN_BLOCKS, TWIN_COUNT, TwinColumns, twin_names};
pub(crate) use low_pass::LowPass;
use measures::{
    FAST, LAGS, LONGEST_LAG, MEASURES, lags, periodicity, pulse_row, raw_measures, repetition, squash,
};
pub use ring::{Mean, Ring};

use crate::MotionError;
use crate::error::check;
use crate::kinematics::ENDS;
use crate::layout::RATE;

/// The eight sound parameters, in order; each in 0..1.
pub const PARAMETERS: [&str; PARAMETER_COUNT] = [
    "pitch",
    "loudness",
    "brightness",
    "roughness",
    "density",
    "space",
    "pan",
    "pulse",
];

/// Number of parameters.
pub const PARAMETER_COUNT: usize = 8;

/// Delay of the smoother before the differences, seconds; four poles of 10 ms have the variance of the teacher's.
pub const MOTION_DELAY_S: f64 = 0.04;

const MOTION_POLES: usize = 4;
const POLES: usize = 2;

/// The eight parameters of a stream at several delays, which share everything before the final smoothing.
#[derive(Debug, Clone)]
pub struct CausalTwins {
    motion: LowPass,
    /// The newest smoothed positions.
    calm: Ring<SMOOTHED_SIZE>,
    /// The newest velocities of the pulse joints.
    pulse: Ring<{ PULSE_SIZE + 1 }>,
    twins: Vec<Smoothers>,
}

/// The final smoothing for one delay.
#[derive(Debug, Clone)]
struct Smoothers {
    fast: LowPass,
    slow: LowPass,
    pulse: LowPass,
}

/// Most delays.
const MAX_DELAYS: usize = 64;
/// Longest delay, seconds.
const MAX_DELAY_S: f64 = 10.0;

/// Frames that the last of three differences over two frames each reaches back.
const DIFFERENCES: usize = 6;

impl CausalTwins {
    /// Creates a twin for each group delay of `delays`, seconds; 0 does not smooth. The slow parameters (density,
    /// pulse) are delayed by three times that, because their bandwidth is a third. `motion` is the delay before the
    /// differences.
    ///
    /// # Errors
    /// A delay, or three times one, outside 0 to 10 s; more than 64 delays.
    pub fn new(delays: &[f64], motion: f64) -> Result<Self, MotionError> {
        let count = delays.len();
        check(count <= MAX_DELAYS, "delays_s", "at most 64 delays", count)?;
        let all = delays.iter().flat_map(|delay| [*delay, 3.0 * delay]);
        for seconds in [motion].into_iter().chain(all) {
            let is_valid = (0.0..=MAX_DELAY_S).contains(&seconds);
            check(is_valid, "delay_s", "0 to 10 seconds", seconds)?;
        }
        Ok(Self::of(delays, motion))
    }

    /// Like [`Self::new`] for delays that are in range.
    fn of(delays: &[f64], motion: f64) -> Self {
        let twins = delays.iter().map(|&delay| Smoothers {
            fast: LowPass::new(delay, POLES, FAST),
            slow: LowPass::new(3.0 * delay, POLES, MEASURES - FAST),
            pulse: LowPass::new(3.0 * delay, POLES, 2 * LAGS),
        });
        Self {
            motion: LowPass::new(motion, MOTION_POLES, SMOOTHED_SIZE),
            calm: Ring::new(DIFFERENCES + 1),
            pulse: Ring::new(LONGEST_LAG + 1),
            twins: twins.collect(),
        }
    }

    /// Starts a new stream with the next frame.
    pub fn reset(&mut self) {
        self.motion.reset();
        self.calm.clear();
        self.pulse.clear();
        for twin in &mut self.twins {
            twin.fast.reset();
            twin.slow.reset();
            twin.pulse.reset();
        }
    }

    /// Takes the next frame and writes the parameters of each delay.
    pub fn push(&mut self, pose: &Rotations, out: &mut [[f64; PARAMETER_COUNT]]) {
        self.push_body(&Body::from_pose(pose), out);
    }

    /// Like [`Self::push`] for positions that were computed already.
    pub fn push_body(&mut self, body: &Body, out: &mut [[f64; PARAMETER_COUNT]]) {
        Arch::new().dispatch(|| self.advance(body, out));
    }

    #[inline(always)]
    fn advance(&mut self, body: &Body, out: &mut [[f64; PARAMETER_COUNT]]) {
        let mut calm = body.positions;
        self.motion.push(&mut calm);
        if self.calm.is_empty() {
            // There was no movement before the first frame.
            (0..DIFFERENCES).for_each(|_| self.calm.push(&calm));
            (0..LONGEST_LAG).for_each(|_| self.pulse.push(&[0.0; PULSE_SIZE + 1]));
        }
        self.calm.push(&calm);
        let calm: [&[f64; SMOOTHED_SIZE]; 4] = std::array::from_fn(|i| self.calm.ago(2 * i));
        // Each difference spans two frames: it has the gain of a central one, a frame later.
        let velocity: [f64; SMOOTHED_SIZE] =
            std::array::from_fn(|i| (calm[0][i] - calm[1][i]) * (RATE / 2.0));
        let jerk: [Vector; ENDS.len()] = ENDS.map(|joint| {
            std::array::from_fn(|axis| {
                let at = |ago: usize| calm[ago][3 * joint + axis];
                let first: [f64; 3] = std::array::from_fn(|i| (at(i) - at(i + 1)) * (RATE / 2.0));
                let second: [f64; 2] = std::array::from_fn(|i| (first[i] - first[i + 1]) * (RATE / 2.0));
                (second[0] - second[1]) * (RATE / 2.0)
            })
        });
        self.pulse.push(&pulse_row(&velocity[POSITION_SIZE..]));
        let raw = raw_measures(body.upright(), &body.lateral, velocity.as_chunks().0, &jerk);
        let mut terms = [0.0; 2 * LAGS];
        for (slot, lag) in terms.as_chunks_mut().0.iter_mut().zip(lags()) {
            *slot = repetition(self.pulse.ago(0), self.pulse.ago(lag));
        }
        for (twin, out) in self.twins.iter_mut().zip(out) {
            let (mut measures, mut terms) = (raw, terms);
            twin.fast.push(&mut measures[..FAST]);
            twin.slow.push(&mut measures[FAST..]);
            twin.pulse.push(&mut terms);
            let best = terms.as_chunks().0.iter().map(|&term| periodicity(term, 1.0));
            *out = squash(&measures, best.fold(0.0, f64::max));
        }
    }
}
