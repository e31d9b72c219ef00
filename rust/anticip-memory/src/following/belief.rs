//! Belief in a stretch of one take: a distribution over place and tempo.

use anticip_motion::features::RATE;
use pulp::Arch;

use super::Place;
use super::posture::{Posture, distance_squared, dot};
use super::rehearsal::Rehearsal;

/// Tempi relative to the rehearsal, about a fifth distance_squared; the first two are standing still and
/// hardly moving.
pub(super) const TEMPI: [f32; TEMPO_COUNT] = [0.0, 0.35, 0.57, 0.69, 0.83, 1.0, 1.2, 1.45];
const TEMPO_COUNT: usize = 8;
/// Belief per tempo at one frame of the rehearsal.
pub(super) type Row = [f32; TEMPO_COUNT];

/// Prior of each tempo: the distribution without evidence, and the one after the performer was lost.
pub(super) const ANY_TEMPO: Row = [0.05, 0.05, 0.1, 0.15, 0.2, 0.2, 0.15, 0.1];
/// Probability per frame of one tempo step up or down.
const DRIFT: f32 = 0.03;
/// Probability per frame of a stop.
const STOP: f32 = 0.001;
/// Probability per frame of going on after a stop.
const RESUME: f32 = 0.05;
/// Distribution of tempo after a stop.
const RESUMED: Row = [0.0, 0.21, 0.105, 0.105, 0.16, 0.21, 0.16, 0.05];
/// Variance per frame that the place diffuses by while moving, in frames squared.
const MOVING_VARIANCE: f32 = 0.2;
/// The same while standing still.
const STILL_VARIANCE: f32 = 0.02;
/// Probability per frame that the movement is no longer in the rehearsal.
pub(super) const LEAVE: f32 = 0.0005;

/// Delay of postures and velocities, in frames.
const DELAY: f32 = super::posture::HALF as f32;
/// Frames before the present place that a delayed observation may be of: the delay at the highest tempo.
const BEFORE: usize = 5;
/// Frames that a step may go back.
const BACK: usize = 1;
/// Number of frames that a step may reach: one back to five ahead.
const REACH: usize = 7;
/// Maximum length of a stretch in frames, once there is some evidence: six seconds.
pub(super) const MAX_FRAMES: usize = 300;
/// Frames of all stretches together that a run may begin with, so that its first frames do not take long.
const EARLY_FRAMES: usize = 8000;
/// Place and tempo are means over this many frames on either side of the median.
const MEAN_FRAMES: usize = 4;
/// Frames at the ends of a stretch with less than this share of its belief are cut off.
const NEGLIGIBLE: f32 = 1e-5;

/// Observation of a frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observation {
    pub(super) place: Posture,
    pub(super) velocity: Posture,
    /// False in the first frames, which have no velocity yet.
    pub(super) moving: bool,
    /// Squared scale of differences when the same movement is repeated: positions (m^2), velocities
    /// ((m/s)^2).
    pub(super) scale: [f32; 2],
    /// Likelihood of the observation when the movement is in no take.
    pub(super) elsewhere: f32,
    /// Share of the log likelihood that counts between stretches.
    pub(super) weight: f32,
}

/// Transition of belief over one or two frames.
#[derive(Debug, Clone)]
pub(super) struct Motion {
    pub(super) frames: u8,
    /// Per offset in frames (from one back) and tempo: probability of moving there.
    taps: [Row; REACH],
    stay: Row,
    up: Row,
    down: Row,
    stop: f32,
    resume: Row,
}

impl Motion {
    pub(super) fn new(frames: u8) -> Self {
        let n = f32::from(frames);
        let mut taps = [[0.0; TEMPO_COUNT]; REACH];
        for (k, tempo) in TEMPI.iter().enumerate() {
            let (whole, part) = ((tempo * n).floor() as usize, (tempo * n).fract());
            // Interpolating between two frames already adds part of the variance.
            let variance = n * if k == 0 { STILL_VARIANCE } else { MOVING_VARIANCE };
            let side = ((variance - part * (1.0 - part)) / 2.0).max(0.0);
            let blur = [side, 1.0 - 2.0 * side, side];
            for (i, b) in blur.iter().enumerate() {
                taps[whole + i][k] += (1.0 - part) * b;
                taps[whole + i + 1][k] += part * b;
            }
        }
        // Rarer towards a rarer tempo, so that without evidence the tempi keep their prior.
        let drift = |from: usize, to: usize| DRIFT * n * (ANY_TEMPO[to] / ANY_TEMPO[from]).min(1.0);
        let (mut up, mut down) = ([0.0; TEMPO_COUNT], [0.0; TEMPO_COUNT]);
        for k in 1..TEMPO_COUNT - 1 {
            (up[k], down[k + 1]) = (drift(k, k + 1), drift(k + 1, k));
        }
        let stop = STOP * n;
        let mut stay: Row = std::array::from_fn(|k| 1.0 - up[k] - down[k] - stop);
        stay[0] = 1.0 - RESUME * n;
        Self {
            frames,
            taps,
            stay,
            up,
            down,
            stop,
            resume: RESUMED.map(|share| share * RESUME * n),
        }
    }

    /// Applies the transition of tempo to the belief at one frame.
    fn change(&self, row: &Row) -> Row {
        let mut out: Row = std::array::from_fn(|k| row[k] * self.stay[k] + row[0] * self.resume[k]);
        for k in 1..TEMPO_COUNT - 1 {
            out[k] += self.down[k + 1] * row[k + 1];
            out[k + 1] += self.up[k] * row[k];
        }
        out[0] += self.stop * row[1..].iter().sum::<f32>();
        out
    }
}

/// Buffers reused by steps.
#[derive(Debug, Clone, Default)]
pub(super) struct Scratch {
    rows: Vec<Row>,
    comparisons: Vec<[f32; 3]>,
    pub(super) postures: Vec<Posture>,
}

/// Belief in consecutive frames of a take; over all stretches and "nowhere" it sums to one.
#[derive(Debug, Clone)]
pub(super) struct Stretch {
    pub(super) take: usize,
    pub(super) start: usize,
    pub(super) rows: Vec<Row>,
}

/// The total belief.
pub(super) fn mass(row: &Row) -> f32 {
    row.iter().sum()
}

/// Frames that each of so many stretches may have in the first frames of a run.
pub(super) fn max_early_frames(stretches: usize) -> usize {
    (EARLY_FRAMES / stretches.max(1)).max(2 * MAX_FRAMES)
}

impl Stretch {
    pub(super) fn end(&self) -> usize {
        self.start + self.rows.len()
    }

    pub(super) fn mass(&self) -> f32 {
        self.rows.iter().map(mass).sum()
    }

    pub(super) fn scale(&mut self, by: f32) {
        self.rows.iter_mut().flatten().for_each(|w| *w *= by);
    }

    /// Adds the belief of an overlapping stretch of the same take that starts no earlier.
    pub(super) fn merge(&mut self, other: &Self) {
        let end = self.end().max(other.end());
        self.rows.resize(end - self.start, [0.0; TEMPO_COUNT]);
        for (row, added) in self.rows[other.start - self.start..].iter_mut().zip(&other.rows) {
            row.iter_mut().zip(added).for_each(|(w, m)| *w += m);
        }
    }

    /// Adds belief to each of these frames, spread over the tempi by their prior.
    pub(super) fn add(&mut self, frames: std::ops::Range<usize>, each: f32) {
        if frames.is_empty() {
            return;
        }
        if self.rows.is_empty() {
            self.start = frames.start;
        }
        if frames.start < self.start {
            let missing = self.start - frames.start;
            self.rows
                .splice(0..0, std::iter::repeat_n([0.0; TEMPO_COUNT], missing));
            self.start = frames.start;
        }
        if frames.end > self.end() {
            self.rows.resize(frames.end - self.start, [0.0; TEMPO_COUNT]);
        }
        for row in &mut self.rows[frames.start - self.start..frames.end - self.start] {
            row.iter_mut()
                .zip(ANY_TEMPO)
                .for_each(|(w, share)| *w += share * each);
        }
    }

    /// Advances by the frames of `motion` and weights every place by the likelihood of the observation. Belief after a
    /// gap is spread widely, and keeps `max_early_frames` until there is some evidence.
    pub(super) fn step(
        &mut self,
        at: &Rehearsal,
        motion: &Motion,
        observed: &Observation,
        max_early_frames: usize,
        scratch: &mut Scratch,
    ) {
        self.predict(at, motion, scratch);
        self.trim(max_early_frames);
        self.weight_by_likelihood(at, motion, observed, scratch);
        self.trim(if observed.moving {
            MAX_FRAMES
        } else {
            max_early_frames
        });
    }

    /// Applies the transitions of tempo and place.
    fn predict(&mut self, at: &Rehearsal, motion: &Motion, scratch: &mut Scratch) {
        let take = at.frames(self.take);
        let first = self.start.saturating_sub(BACK).max(take.start);
        let end = (self.end() + REACH - BACK).min(take.end);
        let out = &mut scratch.rows;
        out.clear();
        out.resize(end - first, [0.0; TEMPO_COUNT]);
        for (i, row) in self.rows.iter().enumerate() {
            let changed = motion.change(row);
            for (reach, tap) in motion.taps.iter().enumerate() {
                let Some(to) = (self.start + i + reach).checked_sub(first + BACK) else {
                    continue;
                };
                let Some(to) = out.get_mut(to) else { break };
                for k in 0..TEMPO_COUNT {
                    to[k] += tap[k] * changed[k];
                }
            }
        }
        std::mem::swap(&mut self.rows, out);
        self.start = first;
    }

    fn weight_by_likelihood(
        &mut self,
        at: &Rehearsal,
        motion: &Motion,
        observed: &Observation,
        scratch: &mut Scratch,
    ) {
        Arch::new().dispatch(|| self.compare(at, observed, scratch));
        let comparisons = &scratch.comparisons;
        let observed_square = dot(&observed.velocity, &observed.velocity);
        let place = 1.0 / observed.scale[0];
        let velocity = f32::from(u8::from(observed.moving)) / observed.scale[1];
        let keep = 1.0 - LEAVE * f32::from(motion.frames);
        // Frames of the rehearsal by which the observation is delayed at each tempo.
        let ago = TEMPI.map(|tempo| (tempo * DELAY).ceil());
        let delays: [_; TEMPO_COUNT] = std::array::from_fn(|k| (ago[k] as usize, ago[k] - TEMPI[k] * DELAY));
        for (i, row) in self.rows.iter_mut().enumerate() {
            for (k, w) in row.iter_mut().enumerate() {
                let (ago, part) = delays[k];
                let near = i + BEFORE - ago;
                let [a, b] = [
                    comparisons[near],
                    comparisons[(near + 1).min(comparisons.len() - 1)],
                ];
                let [dot_product, rehearsed_square, position_error] =
                    [0, 1, 2].map(|n| a[n] + part * (b[n] - a[n]));
                let velocity_error =
                    (observed_square + TEMPI[k] * (TEMPI[k] * rehearsed_square - 2.0 * dot_product)).max(0.0);
                let inverse_likelihood = (1.0 + place * position_error) * (1.0 + velocity * velocity_error);
                *w *= keep
                    / if motion.frames == 2 {
                        inverse_likelihood * inverse_likelihood
                    } else {
                        inverse_likelihood
                    };
            }
        }
    }

    /// Leaves in `comparisons`, for each place and some before the first: dot product of the observed and the
    /// rehearsed velocity, the rehearsed velocity squared, squared distance of the postures.
    #[inline(always)]
    fn compare(&self, at: &Rehearsal, observed: &Observation, scratch: &mut Scratch) {
        let Scratch {
            comparisons,
            postures,
            ..
        } = scratch;
        let first = self.start.saturating_sub(BEFORE).max(at.frames(self.take).start);
        // Before a take everything is as at its start.
        let missing = self.rows.len() + BEFORE - (self.end() - first);
        comparisons.clear();
        comparisons.resize(missing, [0.0; 3]);
        at.for_each_frame(self.take, first..self.end(), postures, |[place, velocity]| {
            comparisons.push([
                dot(&observed.velocity, velocity),
                dot(velocity, velocity),
                distance_squared(&observed.place, place),
            ]);
        });
        if let Some(&start) = comparisons.get(missing) {
            comparisons[..missing].fill(start);
        }
    }

    /// Cuts off ends with negligible belief, and the lighter end while the stretch is longer than `max_frames`.
    fn trim(&mut self, max_frames: usize) {
        let min_mass = NEGLIGIBLE * self.mass();
        let is_significant = |row: &Row| mass(row) > min_mass;
        let Some(mut first) = self.rows.iter().position(is_significant) else {
            self.rows.clear();
            return;
        };
        let mut end = self
            .rows
            .iter()
            .rposition(is_significant)
            .map_or(first, |last| last + 1);
        while end - first > max_frames {
            if mass(&self.rows[first]) < mass(&self.rows[end - 1]) {
                first += 1;
            } else {
                end -= 1;
            }
        }
        self.rows.truncate(end);
        self.rows.drain(..first);
        self.start += first;
    }
}

/// The place within the half second of a stretch that starts at its row `first`; `take_start` is the take's
/// first frame.
pub(super) fn place_within(stretch: &Stretch, first: usize, trust: f32, take_start: usize) -> Place {
    let mut remaining = 0.5 * trust;
    let median = stretch.rows[first..].iter().position(|row| {
        remaining -= mass(row);
        remaining <= 0.0
    });
    let median = first + median.unwrap_or(0);
    let (mut sum, mut place, mut tempo) = (0.0, 0.0, 0.0);
    let end = (median + MEAN_FRAMES + 1).min(stretch.rows.len());
    for i in median.saturating_sub(MEAN_FRAMES)..end {
        for (w, r) in stretch.rows[i].iter().zip(TEMPI) {
            sum += f64::from(*w);
            place += f64::from(*w) * (stretch.start + i) as f64;
            tempo += f64::from(*w) * f64::from(r);
        }
    }
    Place {
        take: stretch.take,
        seconds: (place / sum - take_start as f64) / RATE,
        tempo: tempo / sum,
        trust: f64::from(trust.min(1.0)),
    }
}

#[cfg(test)]
mod tests {
    use anticip_motion::canonical::JOINT_COUNT;

    use super::*;

    #[test]
    fn what_holds_no_belief_has_no_frames_also_where_a_take_begins() {
        let take = [[[1.0, 0.0, 0.0, 0.0]; JOINT_COUNT]; 40];
        let rehearsal = Rehearsal::new([take]).expect("a take");
        let observed = Observation {
            place: [0.0; 32],
            velocity: [0.0; 32],
            moving: true,
            scale: [1.0; 2],
            elsewhere: 1.0,
            weight: 1.0,
        };
        for start in [0, 3, 20] {
            let (take, rows) = (0, vec![[0.0; TEMPO_COUNT]; 3]);
            let mut stretch = Stretch { take, start, rows };
            let mut scratch = Scratch::default();
            stretch.step(&rehearsal, &Motion::new(1), &observed, MAX_FRAMES, &mut scratch);
            assert!(stretch.rows.is_empty(), "{start}");
        }
    }

    #[test]
    fn belief_in_more_frames_is_added_to_what_there_is() {
        let mut belief = Stretch {
            take: 0,
            start: 0,
            rows: Vec::new(),
        };
        for (frames, start, end) in [
            (100..110, 100, 110),
            (95..105, 95, 110),
            (108..120, 95, 120),
            (97..99, 95, 120),
        ] {
            belief.add(frames, 1.0);
            assert_eq!((belief.start, belief.end()), (start, end));
        }
        belief.add(50..50, 1.0);
        let times: Vec<f32> = belief.rows.iter().map(|row| mass(row).round()).collect();
        let expected = |frame: usize| {
            [100..110, 95..105, 108..120, 97..99]
                .iter()
                .filter(|f| f.contains(&frame))
                .count()
        };
        assert_eq!(
            times,
            (95..120).map(|frame| expected(frame) as f32).collect::<Vec<_>>()
        );
    }
}
