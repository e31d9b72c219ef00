//! Following: where the performer is in the rehearsed takes (take, seconds, tempo relative to it, and trust).
//!
//! A forward filter (a hidden Markov model) over place, on the rehearsal's 50 Hz grid, and tempo, in eight
//! steps. Only stretches with some belief are updated. Ten times a second a coarse time warping over the
//! whole rehearsal proposes up to two other places; the last frames are then replayed towards them, and how
//! well these explain the frames decides how much belief a place gets. This finds pauses, skips and repeated
//! parts, and makes an hour of rehearsal cost little more than a minute.
//!
//! Observations of consecutive frames are far from independent, and a repeated movement differs for whole
//! seconds at a time. Within a stretch each frame counts in full, which is sharp; between stretches only part
//! of its log likelihood counts, so that belief does not move to what merely looks more similar for a moment.
//! How large that part is, and how much the performer may differ, is learned while following ([`performer`]):
//! someone who repeats the rehearsal exactly and then deviates has jumped; someone who never repeats it
//! exactly has not. What the suit's jitter adds does not count there, as it is independent from frame to frame.

mod belief;
mod fine;
mod performer;
mod posture;
mod rehearsal;
mod search;
mod spotter;

use std::cmp::Reverse;
use std::sync::Arc;

use anticip_motion::CanonicalPose;
use anticip_motion::features::RATE;

use crate::MemoryError;
use belief::{
    ANY_TEMPO, LEAVE, MAX_FRAMES, Motion, Observation, Scratch, Stretch, TEMPI, mass, max_early_frames,
    place_within,
};
use fine::Fine;
use performer::Performer;
pub use posture::KeptPose;
use posture::{HALF, Posture, Viewer, middle, velocity};
use rehearsal::Rehearsal;
use search::{SEARCH_STEP, Search};
pub use spotter::{GESTURE_FRAMES, Spotted, Spotter};

/// Frames on which a new place is tried.
const REPLAYED_FRAMES: usize = 30;
/// Past frames stored for it; a ring.
const PAST_FRAMES: usize = 64;
/// Probability that a run starts within the first [`START_FRAMES`] of a take.
const START_PROBABILITY: f32 = 0.9;
/// Frames of a take in which a run usually starts.
const START_FRAMES: usize = 25;
/// Probability per frame that a followed performer jumps to another place.
const JUMP: f32 = 3e-5;
/// Probability per frame that a performer who is nowhere enters the rehearsal.
const ENTER: f32 = 0.002;
/// A belief that is smaller than another by this much, as a logarithm, is dropped.
const MAX_LOG_RATIO: f64 = 30.0;
/// Minimum number of frames over which jumps are spread (two minutes): they are no likelier in a short
/// rehearsal.
const MIN_JUMP_FRAMES: usize = 6000;
/// Minimum belief in a stretch to learn about the performer from it.
const MIN_LEARNING_BELIEF: f32 = 0.5;
/// Maximum number of stretches during the first [`START_FRAMES`].
const MAX_EARLY_STRETCHES: usize = 32;
/// Maximum number of stretches later.
const MAX_STRETCHES: usize = 10;
/// Belief below which a stretch is dropped.
const MIN_BELIEF: f32 = 1e-5;
/// Minimum belief in a proposed place to follow it.
const MIN_NEW_BELIEF: f32 = 1e-4;
/// Frames on either side of a stretch that count as followed.
const MARGIN: usize = 10;
/// Minimum belief in a stretch for its frames to count as followed.
const MIN_FOLLOWED_BELIEF: f32 = 1e-3;
/// Trust is the largest belief within this many consecutive frames (half a second).
const TRUST_FRAMES: usize = 25;
/// Minimum trust for a place to be reported.
const MIN_TRUST: f32 = 0.01;
/// Time constant, in seconds, of the probability that the performer has continued during a gap.
const CONTINUES_S: f64 = 20.0;
/// Gap, in seconds, after which a new run starts.
const MAX_GAP_S: f64 = 60.0;

/// Place of the performer in the rehearsed takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// Index of the take.
    pub take: usize,
    /// Seconds from the take's first frame.
    pub seconds: f64,
    /// Speed relative to the rehearsal: 1 as rehearsed, 0 standing still.
    pub tempo: f64,
    /// Belief in the best half second, 0..1.
    pub trust: f64,
}

/// A past frame.
#[derive(Debug, Clone)]
struct Past {
    place: Posture,
    pose: KeptPose,
    observed: Observation,
    /// Log likelihood of the frame under the belief at the time.
    evidence: f64,
    /// Belief in nowhere after the frame.
    nowhere: f32,
}

/// Follows a performer through rehearsed takes, frame by frame on the 50 Hz grid, without looking ahead.
#[derive(Debug, Clone)]
pub struct Follower {
    rehearsal: Rehearsal,
    search: Search,
    /// Motion of belief over one and over two frames.
    motions: [Motion; 2],
    viewer: Viewer,
    past: Vec<Past>,
    stretches: Vec<Stretch>,
    /// Belief that the current movement is in no take.
    nowhere: f32,
    frame: usize,
    candidates: Vec<usize>,
    performer: Performer,
    fine: Fine,
    scratch: Scratch,
    /// Places at the newest frame: the result of [`Self::push`], then the best one of each other take.
    places: Vec<Place>,
    /// Seconds since the performer was last followed; `None` without a gap.
    gap_s: Option<f64>,
}

impl Follower {
    /// A follower of these takes: canonical rotations at 50 Hz, of which every second frame is used and
    /// stored.
    ///
    /// # Errors
    /// If there are no takes, a take has no frames, or they have more than ten hours together.
    pub fn new<T: AsRef<[CanonicalPose]>>(takes: impl IntoIterator<Item = T>) -> Result<Self, MemoryError> {
        let rehearsal = Rehearsal::new(takes)?;
        let still = [0.0; 32];
        let past = Past {
            place: still,
            pose: KeptPose::default(),
            observed: Observation {
                place: still,
                velocity: still,
                moving: false,
                scale: [1.0; 2],
                elsewhere: 1.0,
                weight: 1.0,
            },
            evidence: 0.0,
            nowhere: 1.0,
        };
        let performer = Performer::new(&rehearsal);
        Ok(Self {
            search: Search::new(&rehearsal),
            rehearsal,
            motions: [Motion::new(1), Motion::new(2)],
            viewer: Viewer::default(),
            past: vec![past; PAST_FRAMES],
            stretches: Vec::new(),
            nowhere: 1.0,
            frame: 0,
            candidates: Vec::new(),
            performer,
            fine: Fine::default(),
            scratch: Scratch::default(),
            places: Vec::new(),
            gap_s: None,
        })
    }

    /// Every second pose of a take, or `None` if there is no such take.
    #[must_use]
    pub fn poses(&self, take: usize) -> Option<Arc<[KeptPose]>> {
        self.rehearsal.poses(take)
    }

    /// Starts a new run with the next frame.
    pub fn reset(&mut self) {
        self.interrupt();
        self.performer = Performer::new(&self.rehearsal);
        self.fine = Fine::default();
        self.gap_s = None;
    }

    /// The next frame comes `seconds` after the last one; the same performer has probably continued. Returns
    /// false and starts a new run if it is more than a minute.
    pub fn resume(&mut self, seconds: f64) -> bool {
        if !(0.0..=MAX_GAP_S).contains(&seconds) {
            self.reset();
            return false;
        }
        // A further gap before any frame adds to the first one.
        let before = if self.frame == 0 { self.gap_s } else { Some(0.0) };
        self.gap_s = before.map(|before| before + seconds);
        self.interrupt();
        true
    }

    fn interrupt(&mut self) {
        self.search.reset();
        self.viewer = Viewer::default();
        self.frame = 0;
        self.candidates.clear();
        self.fine.stop();
        self.places.clear();
    }

    /// Places at the newest frame: the result of [`Self::push`], then the best one of each other take with
    /// enough belief. Takes that show the same movement share the belief in it.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Adds a frame; returns its place, or `None` if it is in no take as far as is known.
    pub fn push(&mut self, pose: &CanonicalPose) -> Option<Place> {
        let observed = self.observe(pose);
        if self.frame == 0 {
            self.begin();
        }
        let evidence = self.advance(&observed);
        let past = &mut self.past[self.frame % PAST_FRAMES];
        (past.observed, past.evidence, past.nowhere) = (observed, evidence, self.nowhere);
        if self.frame.is_multiple_of(SEARCH_STEP) && observed.moving {
            self.search.push(&observed.place, &observed.velocity);
            let stretches = &self.stretches;
            self.candidates = self.search.candidates(self.frame, |frame| {
                stretches.iter().any(|s| {
                    s.mass() > MIN_FOLLOWED_BELIEF
                        && frame + HALF + MARGIN >= s.start
                        && frame + HALF < s.end() + MARGIN
                })
            });
        } else if let Some(candidate) = self.candidates.pop() {
            let frame = candidate + HALF + self.frame % SEARCH_STEP;
            if frame < self.rehearsal.frames(self.rehearsal.take_of(candidate)).end {
                self.enter(frame);
            }
        }
        self.learn(&observed);
        self.update_places();
        let now = self.frame;
        self.frame += 1;
        let Some(best) = self.places.first_mut() else {
            self.fine.stop();
            return None;
        };
        let last_postures =
            [0, 1, 2, 3].map(|ago: usize| &self.past[(now - ago.min(now)) % PAST_FRAMES].place);
        *best = self.fine.refine(&self.rehearsal, last_postures, now, *best);
        Some(*best)
    }

    /// Stores a frame and prepares what is observed in it.
    fn observe(&mut self, pose: &CanonicalPose) -> Observation {
        let newest = self.viewer.push_without(&self.performer.turns(), pose);
        let past = &mut self.past[self.frame % PAST_FRAMES];
        (past.place, past.pose) = (newest, self.viewer.kept());
        let posture_at =
            |k: usize| &self.past[(self.frame - (2 * HALF - k).min(self.frame)) % PAST_FRAMES].place;
        let moving = self.frame >= 2 * HALF;
        let noise = self.fine.noise();
        let mut observed = self
            .performer
            .observe(middle(posture_at), velocity(posture_at), moving, noise);
        // At first another step than was rehearsed looks like another part, and must not be taken for a jump
        // there.
        observed.weight *= ((self.frame + 1) as f32 / START_FRAMES as f32).min(1.0);
        observed
    }

    /// Learns how the performer differs from the rehearsal.
    fn learn(&mut self, observed: &Observation) {
        let best = self.stretches.iter().max_by(|a, b| a.mass().total_cmp(&b.mass()));
        let Some(best) = best.filter(|best| observed.moving && best.mass() >= MIN_LEARNING_BELIEF) else {
            return;
        };
        let mut remaining = 0.5 * best.mass();
        let median = best.rows.iter().position(|row| {
            remaining -= mass(row);
            remaining <= 0.0
        });
        let median = median.unwrap_or(0);
        let row = &best.rows[median];
        let tempo = row.iter().zip(TEMPI).map(|(w, t)| w * t).sum::<f32>() / mass(row);
        let first = self.rehearsal.frames(best.take).start;
        let then = (best.start + median)
            .saturating_sub((tempo * HALF as f32).round() as usize)
            .max(first);
        let (take, now) = (best.take, &self.past[(self.frame - HALF) % PAST_FRAMES].pose);
        let pose = self.rehearsal.pose(take, then);
        let (performer, postures) = (&mut self.performer, &mut self.scratch.postures);
        self.rehearsal
            .for_each_frame(take, then..then + 1, postures, |[place, velocity]| {
                performer.learn((observed, now), (place, &velocity.map(|v| tempo * v), pose));
            });
    }

    /// Belief before the first frame of a run; after a gap also wherever any tempo may have led.
    fn begin(&mut self) {
        let continues = self.gap_s.map_or(0.0, |gap_s| (-gap_s / CONTINUES_S).exp()) as f32;
        let max_advance =
            self.gap_s
                .map_or(0.0, |gap_s| gap_s * RATE * f64::from(TEMPI[TEMPI.len() - 1])) as usize;
        let previous = std::mem::take(&mut self.stretches);
        self.nowhere = continues * self.nowhere + (1.0 - continues) * (1.0 - START_PROBABILITY);
        for stretch in previous {
            let range =
                stretch.start..(stretch.end() + max_advance).min(self.rehearsal.frames(stretch.take).end);
            let frame_belief = continues * stretch.mass() / range.len().max(1) as f32;
            self.add_stretch(stretch.take, range, frame_belief);
        }
        let frame_belief =
            (1.0 - continues) * START_PROBABILITY / (START_FRAMES * self.rehearsal.takes()) as f32;
        for take in 0..self.rehearsal.takes() {
            let frames = self.rehearsal.frames(take);
            self.add_stretch(
                take,
                frames.start..frames.end.min(frames.start + START_FRAMES),
                frame_belief,
            );
        }
        self.gap_s = None;
        self.merge();
    }

    /// Adds a stretch with the belief `frame_belief` in each frame.
    fn add_stretch(&mut self, take: usize, frames: std::ops::Range<usize>, frame_belief: f32) {
        if frame_belief > 0.0 && !frames.is_empty() {
            let start = frames.start;
            self.stretches.push(Stretch {
                take,
                start,
                rows: vec![ANY_TEMPO.map(|share| share * frame_belief); frames.len()],
            });
        }
    }

    /// Advances all belief by a frame; returns the log likelihood of the observation.
    fn advance(&mut self, observed: &Observation) -> f64 {
        let leaving: f32 = LEAVE * self.stretches.iter().map(Stretch::mass).sum::<f32>();
        self.nowhere = (self.nowhere + leaving) * observed.elsewhere.powf(observed.weight);
        let max_early_frames = max_early_frames(self.stretches.len());
        for stretch in &mut self.stretches {
            let before = stretch.mass();
            let (motion, scratch) = (&self.motions[0], &mut self.scratch);
            stretch.step(&self.rehearsal, motion, observed, max_early_frames, scratch);
            stretch.scale((stretch.mass() / before).powf(observed.weight - 1.0));
        }
        self.stretches.retain(|s| !s.rows.is_empty());
        let evidence = self.normalise();
        self.merge();
        let max_stretches = if self.frame < START_FRAMES {
            MAX_EARLY_STRETCHES
        } else {
            MAX_STRETCHES
        };
        // Masses are positive, so their bits sort like their values.
        self.stretches.sort_by_cached_key(|s| Reverse(s.mass().to_bits()));
        self.stretches.truncate(max_stretches);
        self.stretches.retain(|s| s.mass() > MIN_BELIEF);
        self.stretches.sort_by_key(|s| s.start);
        evidence
    }

    /// Tries a place on the last frames and gives it belief in proportion to how much better it explains
    /// them. The performer may have come there in any of these frames.
    fn enter(&mut self, frame: usize) {
        let take = self.rehearsal.take_of(frame - 1);
        let frames = self.rehearsal.frames(take);
        let place_probability = 1.0 / self.rehearsal.frame_count().max(MIN_JUMP_FRAMES) as f32;
        let mut stretch = Stretch {
            take,
            start: frame,
            rows: Vec::new(),
        };
        // Log belief in the stretch relative to all else that was believed at the time.
        let mut log_belief = f64::NEG_INFINITY;
        for pair in (0..REPLAYED_FRAMES.min(self.frame) / 2).rev() {
            let frame_then = self.frame - 2 * pair;
            // Where it was then: at a tempo of 1.45 to 0.6, and within a margin.
            let posture_at = 2 * pair + 2;
            let first = frame
                .saturating_sub(posture_at * 29 / 20 + MARGIN)
                .max(frames.start);
            let end = (frame + MARGIN)
                .saturating_sub(posture_at * 3 / 5)
                .clamp(frames.start + 1, frames.end);
            let nowhere_before = self.past[(frame_then - 2) % PAST_FRAMES].nowhere;
            let log_entry =
                f64::from(2.0 * place_probability * (JUMP * (1.0 - nowhere_before) + ENTER * nowhere_before))
                    .ln();
            if stretch.rows.is_empty() || log_belief < log_entry - MAX_LOG_RATIO {
                stretch.rows.clear();
                log_belief = log_entry;
            }
            stretch.add(first..end, (log_entry - log_belief).exp() as f32);
            let before = stretch.mass();
            stretch.scale(1.0 / before);
            let Past {
                observed, evidence, ..
            } = &self.past[frame_then % PAST_FRAMES];
            let (motion, scratch) = (&self.motions[1], &mut self.scratch);
            stretch.step(&self.rehearsal, motion, observed, MAX_FRAMES, scratch);
            if stretch.rows.is_empty() {
                return;
            }
            let likelihood = stretch.mass();
            stretch.scale(1.0 / likelihood);
            log_belief += f64::from(before.ln() + observed.weight * likelihood.ln());
            log_belief -= evidence + self.past[(frame_then - 1) % PAST_FRAMES].evidence;
        }
        let mass = log_belief.min(MAX_LOG_RATIO).exp() as f32;
        if mass < MIN_NEW_BELIEF || stretch.rows.is_empty() {
            return;
        }
        stretch.scale(mass / stretch.mass());
        // Frames that are already followed must not be counted twice.
        for other in self.stretches.iter().filter(|other| other.take == stretch.take) {
            for i in other.start.max(stretch.start)..other.end().min(stretch.end()) {
                stretch.rows[i - stretch.start] = [0.0; TEMPI.len()];
            }
        }
        self.stretches.push(stretch);
        self.normalise();
        self.merge();
    }

    /// Scales all belief to sum to one; returns the logarithm of the previous sum.
    fn normalise(&mut self) -> f64 {
        let sum = self.nowhere + self.stretches.iter().map(Stretch::mass).sum::<f32>();
        self.nowhere /= sum;
        self.stretches.iter_mut().for_each(|s| s.scale(1.0 / sum));
        f64::from(sum).ln()
    }

    /// Merges overlapping stretches.
    fn merge(&mut self) {
        self.stretches.sort_by_key(|s| s.start);
        self.stretches.dedup_by(|next, stretch| {
            let overlap = next.take == stretch.take && next.start < stretch.end();
            if overlap {
                stretch.merge(next);
            }
            overlap
        });
    }

    /// Updates `places`: the half second of each take with the most belief, best first.
    fn update_places(&mut self) {
        let mut candidates: Vec<(f32, &Stretch, usize)> = Vec::new();
        for stretch in &self.stretches {
            let (mut sum, mut best) = (0.0, (MIN_TRUST, None));
            for (i, row) in stretch.rows.iter().enumerate() {
                sum += mass(row);
                if let Some(max_advance) = i.checked_sub(TRUST_FRAMES) {
                    sum -= mass(&stretch.rows[max_advance]);
                }
                if sum > best.0 {
                    best = (sum, Some((i + 1).saturating_sub(TRUST_FRAMES)));
                }
            }
            if let (trust, Some(first)) = best {
                candidates.push((trust, stretch, first));
            }
        }
        candidates.sort_by(|a, b| b.0.total_cmp(&a.0));
        self.places.clear();
        for (trust, stretch, first) in candidates {
            if self.places.iter().all(|place| place.take != stretch.take) {
                let take_start = self.rehearsal.frames(stretch.take).start;
                self.places.push(place_within(stretch, first, trust, take_start));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use anticip_motion::canonical::JOINT_COUNT;

    use super::*;

    #[test]
    fn belief_after_a_gap_in_many_takes_is_bounded() {
        let pose = [[1.0, 0.0, 0.0, 0.0]; JOINT_COUNT];
        for (takes, least) in [(1, 3_000), (20, 10 * MAX_FRAMES)] {
            let mut follower = Follower::new((0..takes).map(|_| vec![pose; 6_000])).expect("takes");
            follower.push(&pose);
            assert!(follower.resume(50.0));
            for _ in 0..2 * HALF {
                follower.push(&pose);
                let frames: usize = follower.stretches.iter().map(|s| s.rows.len()).sum();
                let most = takes * max_early_frames(takes);
                assert!((least..=most).contains(&frames), "{takes} takes: {frames}");
            }
        }
    }
}
