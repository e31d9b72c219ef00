//! Performer range: maps the part of the model's scale that a performer uses to the full audible range.
//!
//! The model's scale is fixed, but some people dance slowly and others run. The parameters that measure how
//! much a body moves are stretched from the performer's range, by the same map at every lead.

use crate::vectors::{BRIGHTNESS, HIGH_TARGET, LOUDNESS, PARAMETER_COUNT, Parameters, Reach};

/// The stretched parameters: those that measure how much a body moves, not where it is.
pub const STRETCHED: [usize; 2] = [LOUDNESS, BRIGHTNESS];
/// Upper bound of [`Span::still`].
pub const MAX_STILL: f64 = 0.3;

/// Stretched value of the performer's `low`.
const LOW_TARGET: f64 = 0.1;
/// Minimum distance between the bottom and the top of a range.
const MIN_WIDTH: f64 = 0.1;
/// Values below this are not learned from.
const MIN_VALUE: f64 = 0.02;
/// Maximum of a range's top: closer to 1, the rest of the map would be a jump.
const MAX_TOP: f64 = 0.98;

/// The range of one parameter for one performer, on the model's scale 0..1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Value while standing still.
    pub still: f64,
    /// 5th percentile while moving.
    pub low: f64,
    /// 95th percentile while moving.
    pub high: f64,
}

impl Span {
    /// `None` unless 0 <= still <= low <= high <= 1 and still <= [`MAX_STILL`].
    #[must_use]
    pub fn new(still: f64, low: f64, high: f64) -> Option<Self> {
        let is_ordered = 0.0 <= still && still <= low && low <= high && high <= 1.0;
        (is_ordered && still <= MAX_STILL).then_some(Self { still, low, high })
    }

    /// The stretching map of this span: 0 up to `still`, 0.1 at `low`, 0.75 at `high`, 1 at 1.
    ///
    /// The more octaves a range spans, the more its lower half is lifted, so that slow movement is audible
    /// before it is loud.
    #[must_use]
    pub fn reach(&self, place: usize) -> Reach {
        let top = self.high.max(self.still + MIN_WIDTH).min(MAX_TOP);
        let low = self.low.min(top - MIN_WIDTH);
        let curve = 1.0 / (1.0 + 0.5 * (top / low.max(MIN_VALUE)).log2());
        let foot = (low - (top - low) / ((HIGH_TARGET / LOW_TARGET).powf(1.0 / curve) - 1.0)).max(self.still);
        Reach {
            place,
            foot,
            top,
            curve,
        }
    }
}

/// Initial span of an unknown performer, and the minimum of every learned `low` and `high`: someone who moves
/// little is not made as loud as someone who dances.
const DEFAULT_SPAN: Span = Span {
    still: 0.02,
    low: 0.06,
    high: 0.5,
};
/// Time constant, in seconds of movement, with which older movement is forgotten.
const DECAY_S: f64 = 60.0;
/// For `low` and `high`: percentile, seconds of movement that weigh as much as the prior, prior value.
const PERCENTILES: [(f64, f64, f64); 2] = [(0.05, 8.0, DEFAULT_SPAN.low), (0.95, 0.3, DEFAULT_SPAN.high)];
const BINS_PER_OCTAVE: f64 = 8.0;
/// Number of bins: from [`MIN_VALUE`] to 1.
const BINS: usize = 46;
/// Frames between two updates of the percentiles.
const UPDATE_FRAMES: u32 = 10;
/// Maximum time, in seconds, that one frame counts for (after a gap).
const MAX_FRAME_S: f64 = 0.1;

/// Running estimate of one parameter's span from a decaying histogram of its values during movement.
///
/// Depends only on the values and times passed in.
#[derive(Debug, Clone)]
struct SpanEstimate {
    /// Seconds of movement in each logarithmic bin.
    bins: [f64; BINS],
    frames: u32,
    since_update_s: f64,
    span: Span,
    reach: Reach,
}

impl SpanEstimate {
    fn new(place: usize) -> Self {
        Self {
            bins: [0.0; BINS],
            frames: 0,
            since_update_s: 0.0,
            span: DEFAULT_SPAN,
            reach: DEFAULT_SPAN.reach(place),
        }
    }

    /// Adds a value observed while the performer moved, `dt` seconds after the last frame.
    fn learn(&mut self, value: f64, dt: f64) {
        // Also skips NaN, both as value and as time.
        if !(value >= MIN_VALUE && dt >= 0.0) {
            return;
        }
        let bin = ((value / MIN_VALUE).log2() * BINS_PER_OCTAVE) as usize;
        self.bins[bin.min(BINS - 1)] += dt.min(MAX_FRAME_S);
        self.since_update_s += dt;
        self.frames = (self.frames + 1) % UPDATE_FRAMES;
        if self.frames == 0 {
            self.update();
        }
    }

    fn update(&mut self) {
        let decay = (-self.since_update_s / DECAY_S).exp();
        self.since_update_s = 0.0;
        self.bins.iter_mut().for_each(|seconds| *seconds *= decay);
        let total_s: f64 = self.bins.iter().sum();
        if total_s <= 0.0 {
            return;
        }
        let [low, high] = PERCENTILES.map(|(fraction, prior_s, prior)| {
            let (measured, prior_weight) =
                (self.percentile(fraction * total_s), prior_s / (prior_s + total_s));
            (prior_weight * prior.ln() + (1.0 - prior_weight) * measured.ln())
                .exp()
                .max(prior)
                .min(1.0)
        });
        self.span = Span {
            low: low.min(high),
            high,
            ..DEFAULT_SPAN
        };
        self.reach = self.span.reach(self.reach.place);
    }

    fn percentile(&self, mut seconds: f64) -> f64 {
        let mut bins = 0.0;
        for bin_s in self.bins {
            if seconds < bin_s {
                bins += seconds / bin_s;
                break;
            }
            seconds -= bin_s;
            bins += 1.0;
        }
        (MIN_VALUE * 2_f64.powf(bins / BINS_PER_OCTAVE)).min(1.0)
    }
}

/// Stretches model output to the performer's range, calibrated beforehand or learned while playing.
#[derive(Debug, Clone)]
pub struct Range {
    /// Whether learning is off.
    pub frozen: bool,
    calibrated: [Option<(Span, Reach)>; STRETCHED.len()],
    estimates: [SpanEstimate; STRETCHED.len()],
}

impl Range {
    /// Calibrated `spans` in the order of [`STRETCHED`]; those that are `None` are learned, unless `frozen`.
    #[must_use]
    pub fn new(spans: [Option<Span>; STRETCHED.len()], frozen: bool) -> Self {
        let mut range = Self {
            frozen,
            calibrated: [None; STRETCHED.len()],
            estimates: STRETCHED.map(SpanEstimate::new),
        };
        range.calibrate(spans);
        range
    }

    /// Replaces the calibrated spans; those that are `None` are learned.
    pub fn calibrate(&mut self, spans: [Option<Span>; STRETCHED.len()]) {
        self.calibrated = std::array::from_fn(|i| spans[i].map(|span| (span, span.reach(STRETCHED[i]))));
    }

    /// The current span of each stretched parameter.
    #[must_use]
    pub fn spans(&self) -> [Span; STRETCHED.len()] {
        std::array::from_fn(|i| self.calibrated[i].map_or(self.estimates[i].span, |(span, _)| span))
    }

    /// The current stretching map of each stretched parameter.
    #[must_use]
    pub fn reaches(&self) -> [Reach; STRETCHED.len()] {
        std::array::from_fn(|i| self.calibrated[i].map_or(self.estimates[i].reach, |(_, reach)| reach))
    }

    /// Learns from the current parameters (`now`), only while the body moves (`activity` 1).
    pub fn learn(&mut self, now: &Parameters, activity: f64, dt: f64) {
        const { assert!(STRETCHED[0] < PARAMETER_COUNT && STRETCHED[1] < PARAMETER_COUNT) };
        if self.frozen || activity < 1.0 {
            return;
        }
        for ((place, calibrated), estimate) in STRETCHED.iter().zip(&self.calibrated).zip(&mut self.estimates)
        {
            if calibrated.is_none() {
                estimate.learn(now[*place], dt);
            }
        }
    }
}
