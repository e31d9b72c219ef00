//! The performer's range: what is loud for this body becomes loud for the ear.
//!
//! The model's scale is fixed; people are not. One dances slowly, another runs. What says how much a body moves is
//! stretched from the range that a performer uses to the range that is heard, by the same map for every lead.

use crate::vectors::{BRIGHTNESS, LOUDNESS, PARAMETER_COUNT, Parameters, Reach};

/// The parameters that are stretched: those that say how much a body moves, not where it is.
pub const STRETCHED: [usize; 2] = [LOUDNESS, BRIGHTNESS];
/// Nobody stands above this.
pub const RESTLESS: f64 = 0.3;

/// Where the performer's low and high are put.
const LOW: f64 = 0.1;
const HIGH: f64 = 0.75;
/// No range is narrower than this; values below the floor are none; nobody's high is so near the end that the rest of
/// the way would be a jump.
const NARROWEST: f64 = 0.1;
const FLOOR: f64 = 0.02;
const FULL: f64 = 0.98;

/// What a performer does with one parameter, in the model's 0..1: `still` while standing, `low` and `high` (5th and
/// 95th percentile) while moving.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// While standing.
    pub still: f64,
    /// 5th percentile.
    pub low: f64,
    /// 95th percentile.
    pub high: f64,
}

impl Span {
    /// A range in order: 0 <= still <= low <= high <= 1, still at most [`RESTLESS`]; `None` where it is not.
    #[must_use]
    pub fn new(still: f64, low: f64, high: f64) -> Option<Self> {
        let rises = 0.0 <= still && still <= low && low <= high && high <= 1.0;
        (rises && still <= RESTLESS).then_some(Self { still, low, high })
    }

    /// How a parameter is stretched from it: 0 up to still, .1 at low, .75 at high, 1 at 1.
    ///
    /// The more octaves a range has, the more its lower half is lifted: what is slow is heard before it is loud.
    #[must_use]
    pub fn reach(&self, place: usize) -> Reach {
        let top = self.high.max(self.still + NARROWEST).min(FULL);
        let low = self.low.min(top - NARROWEST);
        let curve = 1.0 / (1.0 + 0.5 * (top / low.max(FLOOR)).log2());
        let foot = (low - (top - low) / ((HIGH / LOW).powf(1.0 / curve) - 1.0)).max(self.still);
        Reach {
            place,
            foot,
            top,
            curve,
        }
    }
}

/// What is assumed of somebody unknown, and the least that anybody's range is taken for: who moves less is not made as
/// loud as who dances.
const ANYBODY: Span = Span {
    still: 0.02,
    low: 0.06,
    high: 0.5,
};
/// Older seconds of movement fade with this time constant.
const FADE: f64 = 60.0;
/// Low and high: percentile, how many seconds of movement weigh as much as what is assumed, what is assumed.
const ENDS: [(f64, f64, f64); 2] = [(0.05, 8.0, ANYBODY.low), (0.95, 0.3, ANYBODY.high)];
const BINS_AN_OCTAVE: f64 = 8.0;
/// From the floor to 1.
const BINS: usize = 46;
/// Frames between two looks at the percentiles.
const LOOK: u32 = 10;
/// After a gap a frame stands for no more than so many seconds.
const LONGEST: f64 = 0.1;

/// A running estimate of one parameter's span: percentiles of what was moved, older seconds fading.
///
/// What it says depends on the values and times it was told alone.
#[derive(Debug, Clone)]
struct Running {
    bins: [f64; BINS],
    frames: u32,
    age: f64,
    span: Span,
    reach: Reach,
}

impl Running {
    fn new(place: usize) -> Self {
        Self {
            bins: [0.0; BINS],
            frames: 0,
            age: 0.0,
            span: ANYBODY,
            reach: ANYBODY.reach(place),
        }
    }

    /// A value while the performer moved, `dt` seconds after the last frame.
    fn learn(&mut self, value: f64, dt: f64) {
        // What is no number is none, of a value or of time.
        if !(value >= FLOOR && dt >= 0.0) {
            return;
        }
        let bin = ((value / FLOOR).log2() * BINS_AN_OCTAVE) as usize;
        self.bins[bin.min(BINS - 1)] += dt.min(LONGEST);
        self.age += dt;
        self.frames = (self.frames + 1) % LOOK;
        if self.frames == 0 {
            self.look();
        }
    }

    fn look(&mut self) {
        let keep = (-self.age / FADE).exp();
        self.age = 0.0;
        self.bins.iter_mut().for_each(|seconds| *seconds *= keep);
        let known: f64 = self.bins.iter().sum();
        if known <= 0.0 {
            return;
        }
        let [low, high] = ENDS.map(|(share, belief, assumed)| {
            let (found, doubt) = (self.percentile(share * known), belief / (belief + known));
            (doubt * assumed.ln() + (1.0 - doubt) * found.ln())
                .exp()
                .max(assumed)
                .min(1.0)
        });
        self.span = Span {
            low: low.min(high),
            high,
            ..ANYBODY
        };
        self.reach = self.span.reach(self.reach.place);
    }

    fn percentile(&self, mut seconds: f64) -> f64 {
        let mut bins = 0.0;
        for inside in self.bins {
            if seconds < inside {
                bins += seconds / inside;
                break;
            }
            seconds -= inside;
            bins += 1.0;
        }
        (FLOOR * 2_f64.powf(bins / BINS_AN_OCTAVE)).min(1.0)
    }
}

/// Stretches what the model says to the performer's range: calibrated, or learned while playing.
#[derive(Debug, Clone)]
pub struct Range {
    /// Nothing is learned.
    pub frozen: bool,
    known: [Option<(Span, Reach)>; STRETCHED.len()],
    running: [Running; STRETCHED.len()],
}

impl Range {
    /// What is not among the `known`, in the order of [`STRETCHED`], is learned, unless `frozen`.
    #[must_use]
    pub fn new(known: [Option<Span>; STRETCHED.len()], frozen: bool) -> Self {
        let mut range = Self {
            frozen,
            known: [None; STRETCHED.len()],
            running: STRETCHED.map(Running::new),
        };
        range.calibrate(known);
        range
    }

    /// Plays in these spans from now on; what is not among them is learned while playing.
    pub fn calibrate(&mut self, known: [Option<Span>; STRETCHED.len()]) {
        self.known = std::array::from_fn(|i| known[i].map(|span| (span, span.reach(STRETCHED[i]))));
    }

    /// The span of every stretched parameter as it plays now.
    #[must_use]
    pub fn spans(&self) -> [Span; STRETCHED.len()] {
        std::array::from_fn(|i| self.known[i].map_or(self.running[i].span, |(span, _)| span))
    }

    /// How each of them is stretched.
    #[must_use]
    pub fn reaches(&self) -> [Reach; STRETCHED.len()] {
        std::array::from_fn(|i| self.known[i].map_or(self.running[i].reach, |(_, reach)| reach))
    }

    /// What the model says of this moment; learned from while the body moves (`activity` 1).
    pub fn learn(&mut self, now: &Parameters, activity: f64, dt: f64) {
        const { assert!(STRETCHED[0] < PARAMETER_COUNT && STRETCHED[1] < PARAMETER_COUNT) };
        if self.frozen || activity < 1.0 {
            return;
        }
        for ((place, known), running) in STRETCHED.iter().zip(&self.known).zip(&mut self.running) {
            if known.is_none() {
                running.learn(now[*place], dt);
            }
        }
    }
}
