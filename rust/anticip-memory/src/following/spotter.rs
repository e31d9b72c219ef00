//! Gestures, found while they last: which is under way, how far it is, and when it will end.
//!
//! Online subsequence alignment (dynamic time warping with a free start): every frame of the 50 Hz grid takes every
//! path through a taught take 0, 1 or 2 of its frames on. What a path costs is the mean distance along it, in
//! metres; a gesture is recognised when the path that fits best has come far enough and costs less than the
//! gesture's threshold. A path that is much faster or slower than the take is none.

use std::ops::Range;

use anticip_motion::CanonicalPose;

use super::RATE;
use super::posture::{HALF, Posture, Viewer, apart, dot, middle, velocity};
use crate::MemoryError;

/// Frames of a taught take, takes, and frames of all of them.
pub const GESTURE_FRAMES: Range<usize> = 15..501;
const MOST_TAKES: usize = 200;
const MOST_FRAMES: usize = 20_000;

/// Joints of a posture: what differs in all of them by a metre costs 1.
const NUMBERS: f32 = 30.0;
/// Velocities count as far as the body gets in so many seconds.
const MOVED: f32 = 0.25;
/// What a frame in which a take stands still counts, where the mean of its frames counts 1.
const STILL: f32 = 0.1;
/// What a step that stands, or skips a frame, must be better by.
const UNEVEN: f32 = 0.02;
/// A path is at most so many times as fast or as slow as the take, give or take a few frames.
const TEMPO: f32 = 1.8;
const SLACK: f32 = 3.0;
/// Paths are compared from this share on of where a gesture is recognised.
const NEARLY: f32 = 0.6;
/// Nothing is recognised when so little of it is left.
const LATE: f32 = 0.9;
/// A gesture is given up where its path costs so many thresholds, or has of late (as many frames) cost more.
const GIVEN_UP: f32 = 1.3;
const OFF_TRACK: f32 = 2.5;
const RECENT: f32 = 10.0;
/// It was broken off where the body is slower than this share of the takes' mean speed for so many frames in which the
/// take is not, and so much of it is not done yet.
const STANDS: f32 = 0.3;
const BROKEN_OFF: u32 = 8;
const NEAR_ITS_END: f32 = 0.85;
/// How steeply likelihood falls around the threshold, where it is one half.
const STEEP: f32 = 8.0;
/// A tempo is believed as if so many frames had been played as taught.
const AS_TAUGHT: f32 = 5.0;
/// The share of a take that the end of one gesture and the start of the next have in common.
const SHARED: f32 = 0.1;

/// A gesture that is under way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spotted {
    /// 0 to 1: how much of it has been done.
    pub progress: f32,
    /// Until it ends.
    pub seconds: f32,
    /// 0 to 1: one half where it fits as badly as what is only just recognised.
    pub likely: f32,
}

/// The best way so far to a frame of a take.
#[derive(Debug, Clone, Copy)]
struct Path {
    cost: f32,
    /// Mean of the latest distances.
    recent: f32,
    /// What its frames count together.
    length: f32,
    begin: i64,
}

const NONE: Path = Path {
    cost: f32::INFINITY,
    recent: f32::INFINITY,
    length: 0.0,
    begin: 0,
};

impl Path {
    fn mean(&self) -> f32 {
        if self.length > 0.0 {
            self.cost / self.length
        } else {
            f32::INFINITY
        }
    }

    /// Whether a take's frame number `at` may be reached by this path now.
    fn may_reach(&self, at: usize, now: i64) -> bool {
        let (taken, taught) = ((now - self.begin) as f32, at as f32);
        taken <= TEMPO * taught + SLACK && taken * TEMPO + SLACK >= taught
    }
}

#[derive(Debug, Clone)]
struct Gesture {
    threshold: f32,
    /// Paths that began before are of what has been told already.
    barrier: i64,
    /// When it was recognised.
    entered: Option<i64>,
    /// The mean speed of its takes, and for how many frames the body has stood where they do not.
    speed: f32,
    stood: u32,
}

/// Spots gestures frame by frame of the 50 Hz grid; looks at the past alone and allocates nothing after
/// construction.
#[derive(Debug, Clone)]
pub struct Spotter {
    places: Vec<Posture>,
    velocities: Vec<Posture>,
    /// What every frame counts: little where the take hardly moves, so that standing is like no start.
    weights: Vec<f32>,
    /// The share of its take's movement that is done by every frame.
    done: Vec<f32>,
    paths: Vec<Path>,
    /// The gesture and the frames of every take.
    takes: Vec<(usize, Range<usize>)>,
    gestures: Vec<Gesture>,
    at: f32,
    viewer: Viewer,
    past: [Posture; 2 * HALF + 1],
    frame: i64,
    costs: Vec<f32>,
    found: Vec<Option<Spotted>>,
}

impl Spotter {
    /// A spotter of gestures with these thresholds (metres), each shown by at least one of `takes`: the index of a
    /// gesture, and canonical rotations at 50 Hz from its first moment to its last. Recognised when the share `at`
    /// of its movement is done.
    ///
    /// # Errors
    /// No gesture, one without a take, too many or too long ones, thresholds and shares out of range.
    pub fn new(
        takes: &[(usize, &[CanonicalPose])],
        thresholds: &[f64],
        at: f64,
    ) -> Result<Self, MemoryError> {
        check(takes, thresholds, at)?;
        let (mut places, mut velocities, mut spans) = (Vec::new(), Vec::new(), Vec::new());
        for &(gesture, take) in takes {
            let mut viewer = Viewer::default();
            let seen: Vec<Posture> = take.iter().map(|pose| viewer.push(pose)).collect();
            let within = |i: usize| &seen[i.saturating_sub(HALF).min(seen.len() - 1)];
            spans.push((gesture, places.len()..places.len() + seen.len()));
            places.extend((0..seen.len()).map(|i| middle(|k| within(i + k))));
            velocities.extend((0..seen.len()).map(|i| velocity(|k| within(i + k))));
        }
        let (mut weights, mut done) = (Vec::new(), Vec::new());
        for (_, frames) in &spans {
            let speeds: Vec<f32> = velocities[frames.clone()].iter().map(size).collect();
            let whole = speeds.iter().sum::<f32>().max(f32::MIN_POSITIVE);
            let mean = whole / speeds.len() as f32;
            weights.extend(speeds.iter().map(|speed| STILL + (1.0 - STILL) * speed / mean));
            done.extend(speeds.iter().scan(0.0, |sum, speed| {
                *sum += speed / whole;
                Some(*sum)
            }));
        }
        let mean_speed = |index: usize| {
            let mine = spans.iter().filter(|(gesture, _)| *gesture == index);
            let speeds = mine.flat_map(|(_, frames)| &velocities[frames.clone()]).map(size);
            let (sum, count) = speeds.fold((0.0, 0.0), |(sum, count), speed| (sum + speed, count + 1.0));
            sum / f32::max(count, 1.0)
        };
        let gesture = |(index, &threshold): (usize, &f64)| Gesture {
            threshold: threshold as f32,
            barrier: 0,
            entered: None,
            speed: mean_speed(index),
            stood: 0,
        };
        let gestures = thresholds.iter().enumerate().map(gesture).collect();
        Ok(Self {
            paths: vec![NONE; places.len()],
            places,
            velocities,
            weights,
            done,
            takes: spans,
            gestures,
            at: at as f32,
            viewer: Viewer::default(),
            past: [[0.0; 32]; 2 * HALF + 1],
            frame: 0,
            costs: vec![f32::INFINITY; thresholds.len()],
            found: vec![None; thresholds.len()],
        })
    }

    /// The next frame begins a new run.
    pub fn reset(&mut self) {
        self.paths.fill(NONE);
        for gesture in &mut self.gestures {
            (gesture.barrier, gesture.entered, gesture.stood) = (0, None, 0);
        }
        self.viewer = Viewer::default();
        self.frame = 0;
        self.costs.fill(f32::INFINITY);
        self.found.fill(None);
    }

    /// Takes a frame; per gesture what is under way. Nothing is for at least a frame between two of a kind.
    pub fn push(&mut self, pose: &CanonicalPose) -> &[Option<Spotted>] {
        let kept = self.past.len();
        let newest = self.frame as usize;
        self.past[newest % kept] = self.viewer.push(pose);
        if newest >= 2 * HALF {
            let back = |k: usize| &self.past[(newest + 1 + k) % kept];
            let (place, speed) = (middle(back), velocity(back));
            self.advance(&place, &speed);
            for gesture in 0..self.gestures.len() {
                self.look(gesture, size(&speed));
            }
        }
        self.frame += 1;
        &self.found
    }

    /// Per gesture the mean cost (metres) of the path that might be recognised now; infinite where there is none.
    #[must_use]
    pub fn costs(&self) -> &[f32] {
        &self.costs
    }

    fn advance(&mut self, place: &Posture, speed: &Posture) {
        let now = self.frame;
        for (_, frames) in &self.takes {
            let paths = &mut self.paths[frames.clone()];
            // From the last frame back: what a path comes from is still that of the frame before.
            for at in (0..paths.len()).rev() {
                let i = frames.start + at;
                let away = apart(&self.places[i], place) + MOVED * MOVED * apart(&self.velocities[i], speed);
                let (away, weight) = ((away / NUMBERS).sqrt(), self.weights[i]);
                let (mut best, mut least) = (NONE, f32::INFINITY);
                for step in [1, 0, 2] {
                    let Some(from) = at.checked_sub(step) else {
                        continue;
                    };
                    let path = paths[from];
                    let uneven = if step == 1 { 0.0 } else { UNEVEN };
                    let mean = (path.cost + weight * away) / (path.length + weight) + uneven;
                    if mean < least && path.may_reach(at, now) {
                        (best, least) = (path, mean);
                    }
                }
                paths[at] = if at == 0 {
                    Path {
                        cost: weight * away,
                        recent: away,
                        length: weight,
                        begin: now,
                    }
                } else {
                    Path {
                        cost: best.cost + weight * away,
                        recent: best.recent + (away - best.recent) / RECENT,
                        length: best.length + weight,
                        begin: best.begin,
                    }
                };
            }
        }
    }

    /// The cheapest path within that part of a take, and its frame, of those that began in `begun`.
    fn best(
        &self,
        frames: &Range<usize>,
        from: usize,
        to: usize,
        begun: Range<i64>,
    ) -> Option<(usize, Path)> {
        let paths = &self.paths[frames.clone()];
        let mut best: Option<(usize, Path)> = None;
        for (at, path) in paths.iter().enumerate().take(to).skip(from) {
            if path.cost.is_finite()
                && begun.contains(&path.begin)
                && best.is_none_or(|(_, other)| path.mean() < other.mean())
            {
                best = Some((at, *path));
            }
        }
        best
    }

    /// What a gesture's paths say after a frame in which the body has this speed.
    fn look(&mut self, index: usize, speed: f32) {
        let Gesture {
            threshold,
            barrier,
            entered,
            speed: mean,
            stood,
        } = self.gestures[index];
        // Of what has been recognised only the paths that had begun by then are followed.
        let begun = barrier..entered.map_or(i64::MAX, |entered| entered + 1 - HALF as i64);
        let mine = || self.takes.iter().filter(|(gesture, _)| *gesture == index);
        let to = if entered.is_some() { 1.5 } else { LATE };
        let window = |frames: &Range<usize>| {
            let done = &self.done[frames.clone()];
            (
                done.partition_point(|d| *d < NEARLY * self.at),
                done.partition_point(|d| *d < to),
            )
        };
        let (mut least, mut recent, mut done, mut taught) = (f32::INFINITY, f32::INFINITY, 0.0, 0.0);
        for (_, frames) in mine() {
            let (from, to) = window(frames);
            if let Some((at, path)) = self.best(frames, from, to, begun.clone())
                && path.mean() < least
            {
                let frame = frames.start + at;
                (least, recent, done) = (path.mean(), path.recent, self.done[frame]);
                taught = size(&self.velocities[frame]);
            }
        }
        // Where a path that has not come as far fits better, one that came here too fast is not believed.
        if entered.is_none() && done < self.at {
            least = f32::INFINITY;
        }
        self.costs[index] = least;
        let limit = if entered.is_some() { GIVEN_UP } else { 1.0 } * threshold;
        if !(least <= limit && recent <= OFF_TRACK * threshold) {
            self.leave(index, entered);
            return;
        }
        // Takes that fit nearly as well as the best have a say in when it ends.
        let (mut weight, mut seconds, mut share, mut length) = (0.0, 0.0, 0.0, 0.0);
        for (_, frames) in mine() {
            let (from, to) = window(frames);
            let Some((at, path)) = self.best(frames, from, to, begun.clone()) else {
                continue;
            };
            let counts = (-10.0 * (path.mean() - least) / threshold).exp();
            let taken = (self.frame - path.begin) as f32;
            let tempo = (at as f32 + AS_TAUGHT) / (taken + AS_TAUGHT);
            let left = (frames.len() - 1 - at) as f32 / tempo - HALF as f32;
            weight += counts;
            seconds += counts * left / RATE as f32;
            share += counts * (at as f32 + tempo * HALF as f32) / (frames.len() - 1) as f32;
            length += counts * frames.len() as f32;
        }
        let (seconds, share, length) = (seconds / weight, share / weight, length / weight);
        if seconds <= 0.0 {
            let shared = (SHARED * length) as i64;
            self.leave(index, entered.map(|_| self.frame - shared));
            return;
        }
        let stands = entered.is_some() && speed < STANDS * mean && taught >= STANDS * mean;
        let stood = if stands { stood + 1 } else { 0 };
        if stood >= BROKEN_OFF && share < NEAR_ITS_END {
            self.leave(index, entered);
            return;
        }
        self.gestures[index].stood = stood;
        self.gestures[index].entered = entered.or(Some(self.frame));
        self.found[index] = Some(Spotted {
            progress: share.clamp(0.0, 1.0),
            seconds,
            likely: 1.0 / (1.0 + (STEEP * (least / threshold - 1.0)).exp()),
        });
    }

    /// The gesture is under way no more; what began before `barrier` is not told again.
    fn leave(&mut self, index: usize, barrier: Option<i64>) {
        let gesture = &mut self.gestures[index];
        gesture.barrier = barrier.unwrap_or(gesture.barrier);
        (gesture.entered, gesture.stood) = (None, 0);
        self.found[index] = None;
    }
}

fn size(velocity: &Posture) -> f32 {
    dot(velocity, velocity).sqrt()
}

fn check(takes: &[(usize, &[CanonicalPose])], thresholds: &[f64], at: f64) -> Result<(), MemoryError> {
    let option = |option, expected, given| MemoryError::Option {
        option,
        expected,
        given,
    };
    if !(0.1..=0.8).contains(&at) {
        return Err(option("at", "0.1 to 0.8", at.to_string()));
    }
    if let Some(wrong) = thresholds.iter().find(|t| !(1e-4..=10.0).contains(*t)) {
        return Err(option("thresholds", "0.0001 to 10", wrong.to_string()));
    }
    let lengths: Vec<usize> = takes.iter().map(|(_, take)| take.len()).collect();
    let shape = |expected: String| MemoryError::Shape {
        what: "takes",
        expected,
        given: format!("{} of {} frames", lengths.len(), lengths.iter().sum::<usize>()),
    };
    if lengths.len() > MOST_TAKES || lengths.iter().sum::<usize>() > MOST_FRAMES {
        return Err(shape(format!(
            "at most {MOST_TAKES} of {MOST_FRAMES} frames together"
        )));
    }
    if let Some(length) = lengths.iter().find(|length| !GESTURE_FRAMES.contains(length)) {
        let (least, most) = (GESTURE_FRAMES.start, GESTURE_FRAMES.end - 1);
        return Err(MemoryError::Shape {
            what: "a take",
            expected: format!("{least} to {most} frames"),
            given: format!("{length}"),
        });
    }
    let shown = |gesture: usize| takes.iter().any(|(of, _)| *of == gesture);
    if thresholds.is_empty()
        || !(0..thresholds.len()).all(shown)
        || takes.iter().any(|(of, _)| *of >= thresholds.len())
    {
        return Err(shape(format!("some of each of {} gestures", thresholds.len())));
    }
    Ok(())
}
