//! Gesture spotting: which gesture is under way, how far it is, and when it will end.
//!
//! Online subsequence alignment (dynamic time warping with a free start): on every frame of the 50 Hz grid
//! each path through a taught take advances by 0, 1 or 2 of its frames. The cost of a path is the mean
//! distance along it, in metres. A gesture is recognised when the path that fits best has advanced far enough
//! and costs less than the gesture's threshold. Paths much faster or slower than the take are dropped.

use std::ops::Range;

use anticip_motion::CanonicalPose;

use super::RATE;
use super::posture::{HALF, Posture, Viewer, distance_squared, dot, middle, velocity};
use crate::MemoryError;

/// Allowed length of a taught take, in frames.
pub const GESTURE_FRAMES: Range<usize> = 15..501;
/// Maximum number of takes.
const MAX_TAKES: usize = 200;
/// Maximum number of frames in all takes together.
const MAX_FRAMES: usize = 20_000;

/// Number of coordinates in a posture; distances are divided by it, so that a difference of 1 m in each costs
/// 1.
const COORDINATES: f32 = 30.0;
/// Seconds by which velocities are multiplied to compare them with positions.
const VELOCITY_S: f32 = 0.25;
/// Weight of a frame in which a take stands still, relative to the mean weight of its frames.
const STILL_WEIGHT: f32 = 0.1;
/// Penalty of a step that stays at a frame or skips one.
const STEP_PENALTY: f32 = 0.02;
/// Maximum ratio of the speeds of path and take, either way.
const MAX_TEMPO_RATIO: f32 = 1.8;
/// Frames by which it may be exceeded.
const TEMPO_SLACK_FRAMES: f32 = 3.0;
/// Paths are compared from this share of the point at which a gesture is recognised.
const COMPARED_SHARE: f32 = 0.6;
/// A gesture is not recognised later than at this share of its movement.
const MAX_ENTRY_SHARE: f32 = 0.9;
/// A recognised gesture is dropped when its path costs more than this multiple of the threshold.
const DROP_COST: f32 = 1.3;
/// A path is rejected when its recent cost is more than this multiple of the threshold.
const MAX_RECENT_COST: f32 = 2.5;
/// Time constant of the recent cost, in frames.
const RECENT_FRAMES: f32 = 10.0;
/// The body stands where it is slower than this share of the takes' mean speed and the take is not.
const STANDING_SPEED: f32 = 0.3;
/// A gesture was broken off after this many frames of standing.
const BREAK_OFF_FRAMES: u32 = 8;
/// From this progress on, standing does not break a gesture off.
const NEAR_END: f32 = 0.85;
/// Steepness of the likelihood over cost / threshold; it is one half at the threshold.
const LIKELIHOOD_SLOPE: f32 = 8.0;
/// Weight of the prior that the gesture has the tempo of the take, in frames.
const TEMPO_PRIOR_FRAMES: f32 = 5.0;
/// Share of a take by which the end of one gesture may overlap the start of the next.
const MAX_OVERLAP: f32 = 0.1;

/// A gesture under way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spotted {
    /// Share of the gesture that is done, 0..1.
    pub progress: f32,
    /// Seconds until it ends.
    pub seconds: f32,
    /// Likelihood, 0..1; one half at the gesture's threshold.
    pub likelihood: f32,
}

/// The best alignment that ends at a frame of a take.
#[derive(Debug, Clone, Copy)]
struct Path {
    /// Sum of weighted distances.
    cost: f32,
    /// Exponential mean of the latest distances.
    recent: f32,
    /// Sum of the weights of its frames.
    length: f32,
    /// Frame at which it started.
    begin: i64,
}

const NO_PATH: Path = Path {
    cost: f32::INFINITY,
    recent: f32::INFINITY,
    length: 0.0,
    begin: 0,
};

impl Path {
    /// The mean cost, in metres.
    fn mean(&self) -> f32 {
        if self.length > 0.0 {
            self.cost / self.length
        } else {
            f32::INFINITY
        }
    }

    /// Whether this path may be at frame `at` of its take now, given the limits on tempo.
    fn may_reach(&self, at: usize, now: i64) -> bool {
        let (elapsed, expected) = ((now - self.begin) as f32, at as f32);
        elapsed <= MAX_TEMPO_RATIO * expected + TEMPO_SLACK_FRAMES
            && elapsed * MAX_TEMPO_RATIO + TEMPO_SLACK_FRAMES >= expected
    }
}

#[derive(Debug, Clone)]
struct Gesture {
    threshold: f32,
    /// Paths that started earlier belong to a gesture that was already reported.
    barrier: i64,
    /// Frame at which it was recognised, if it is under way.
    recognised_at: Option<i64>,
    /// Mean speed of its takes.
    speed: f32,
    /// Consecutive frames for which the body has stood.
    standing_frames: u32,
}

/// Spots gestures frame by frame on the 50 Hz grid; does not look ahead, and allocates nothing after
/// construction.
#[derive(Debug, Clone)]
pub struct Spotter {
    places: Vec<Posture>,
    velocities: Vec<Posture>,
    /// Weight of each frame: small where the take hardly moves, so that standing does not look like a start.
    weights: Vec<f32>,
    /// Share of the take's movement that is done at each frame.
    done: Vec<f32>,
    paths: Vec<Path>,
    /// Gesture and frames of each take.
    takes: Vec<(usize, Range<usize>)>,
    gestures: Vec<Gesture>,
    entry_share: f32,
    viewer: Viewer,
    past: [Posture; 2 * HALF + 1],
    frame: i64,
    costs: Vec<f32>,
    found: Vec<Option<Spotted>>,
}

impl Spotter {
    /// A spotter of gestures with these cost thresholds (metres). Each of `takes` shows one: the index of the
    /// gesture, and its canonical rotations at 50 Hz from start to end. A gesture is recognised once the
    /// share `entry_share` (0.1..0.8) of its movement is done.
    ///
    /// # Errors
    /// If there are no gestures, one has no take, takes are too many, too short or too long, or a number is
    /// out of range.
    pub fn new(
        takes: &[(usize, &[CanonicalPose])],
        thresholds: &[f64],
        entry_share: f64,
    ) -> Result<Self, MemoryError> {
        check(takes, thresholds, entry_share)?;
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
            weights.extend(
                speeds
                    .iter()
                    .map(|speed| STILL_WEIGHT + (1.0 - STILL_WEIGHT) * speed / mean),
            );
            done.extend(speeds.iter().scan(0.0, |sum, speed| {
                *sum += speed / whole;
                Some(*sum)
            }));
        }
        let mean_speed = |index: usize| {
            let gesture_takes = spans.iter().filter(|(gesture, _)| *gesture == index);
            let speeds = gesture_takes
                .flat_map(|(_, frames)| &velocities[frames.clone()])
                .map(size);
            let (sum, count) = speeds.fold((0.0, 0.0), |(sum, count), speed| (sum + speed, count + 1.0));
            sum / f32::max(count, 1.0)
        };
        let gesture = |(index, &threshold): (usize, &f64)| Gesture {
            threshold: threshold as f32,
            barrier: 0,
            recognised_at: None,
            speed: mean_speed(index),
            standing_frames: 0,
        };
        let gestures = thresholds.iter().enumerate().map(gesture).collect();
        Ok(Self {
            paths: vec![NO_PATH; places.len()],
            places,
            velocities,
            weights,
            done,
            takes: spans,
            gestures,
            entry_share: entry_share as f32,
            viewer: Viewer::default(),
            past: [[0.0; 32]; 2 * HALF + 1],
            frame: 0,
            costs: vec![f32::INFINITY; thresholds.len()],
            found: vec![None; thresholds.len()],
        })
    }

    /// Starts a new run with the next frame.
    pub fn reset(&mut self) {
        self.paths.fill(NO_PATH);
        for gesture in &mut self.gestures {
            (gesture.barrier, gesture.recognised_at, gesture.standing_frames) = (0, None, 0);
        }
        self.viewer = Viewer::default();
        self.frame = 0;
        self.costs.fill(f32::INFINITY);
        self.found.fill(None);
    }

    /// Adds a frame; returns per gesture whether it is under way. Between two of a kind it is `None` for at
    /// least a frame.
    pub fn push(&mut self, pose: &CanonicalPose) -> &[Option<Spotted>] {
        let ring_size = self.past.len();
        let newest = self.frame as usize;
        self.past[newest % ring_size] = self.viewer.push(pose);
        if newest >= 2 * HALF {
            let posture_at = |k: usize| &self.past[(newest + 1 + k) % ring_size];
            let (place, speed) = (middle(posture_at), velocity(posture_at));
            self.advance(&place, &speed);
            for gesture in 0..self.gestures.len() {
                self.update_gesture(gesture, size(&speed));
            }
        }
        self.frame += 1;
        &self.found
    }

    /// Per gesture the mean cost, in metres, of the path that might be recognised now; infinite if there is
    /// none.
    #[must_use]
    pub fn costs(&self) -> &[f32] {
        &self.costs
    }

    /// Advances all paths by a frame.
    fn advance(&mut self, place: &Posture, speed: &Posture) {
        let now = self.frame;
        for (_, frames) in &self.takes {
            let paths = &mut self.paths[frames.clone()];
            // Backwards, because a path's predecessors must still be those of the last frame.
            for at in (0..paths.len()).rev() {
                let i = frames.start + at;
                let distance = distance_squared(&self.places[i], place)
                    + VELOCITY_S * VELOCITY_S * distance_squared(&self.velocities[i], speed);
                let (distance, weight) = ((distance / COORDINATES).sqrt(), self.weights[i]);
                let (mut best, mut least) = (NO_PATH, f32::INFINITY);
                for step in [1, 0, 2] {
                    let Some(from) = at.checked_sub(step) else {
                        continue;
                    };
                    let path = paths[from];
                    let penalty = if step == 1 { 0.0 } else { STEP_PENALTY };
                    let mean = (path.cost + weight * distance) / (path.length + weight) + penalty;
                    if mean < least && path.may_reach(at, now) {
                        (best, least) = (path, mean);
                    }
                }
                paths[at] = if at == 0 {
                    Path {
                        cost: weight * distance,
                        recent: distance,
                        length: weight,
                        begin: now,
                    }
                } else {
                    Path {
                        cost: best.cost + weight * distance,
                        recent: best.recent + (distance - best.recent) / RECENT_FRAMES,
                        length: best.length + weight,
                        begin: best.begin,
                    }
                };
            }
        }
    }

    /// The cheapest path that ends within `from..to` of a take and started within `started`, and the frame it
    /// ends at.
    fn best(
        &self,
        frames: &Range<usize>,
        from: usize,
        to: usize,
        started: Range<i64>,
    ) -> Option<(usize, Path)> {
        let paths = &self.paths[frames.clone()];
        let mut best: Option<(usize, Path)> = None;
        for (at, path) in paths.iter().enumerate().take(to).skip(from) {
            if path.cost.is_finite()
                && started.contains(&path.begin)
                && best.is_none_or(|(_, other)| path.mean() < other.mean())
            {
                best = Some((at, *path));
            }
        }
        best
    }

    /// Updates one gesture from its paths, after a frame in which the body has this speed.
    fn update_gesture(&mut self, index: usize, speed: f32) {
        let Gesture {
            threshold,
            barrier,
            recognised_at,
            speed: mean_speed,
            standing_frames,
        } = self.gestures[index];
        // Once recognised, only paths that had started by then are followed.
        let started =
            barrier..recognised_at.map_or(i64::MAX, |recognised_at| recognised_at + 1 - HALF as i64);
        let gesture_takes = || self.takes.iter().filter(|(gesture, _)| *gesture == index);
        let to = if recognised_at.is_some() {
            1.5
        } else {
            MAX_ENTRY_SHARE
        };
        let window = |frames: &Range<usize>| {
            let done = &self.done[frames.clone()];
            (
                done.partition_point(|d| *d < COMPARED_SHARE * self.entry_share),
                done.partition_point(|d| *d < to),
            )
        };
        let (mut lowest, mut recent, mut done, mut take_speed) = (f32::INFINITY, f32::INFINITY, 0.0, 0.0);
        for (_, frames) in gesture_takes() {
            let (from, to) = window(frames);
            if let Some((at, path)) = self.best(frames, from, to, started.clone())
                && path.mean() < lowest
            {
                let frame = frames.start + at;
                (lowest, recent, done) = (path.mean(), path.recent, self.done[frame]);
                take_speed = size(&self.velocities[frame]);
            }
        }
        // If a path that is less far fits better, the one that is far enough got there too fast.
        if recognised_at.is_none() && done < self.entry_share {
            lowest = f32::INFINITY;
        }
        self.costs[index] = lowest;
        let limit = if recognised_at.is_some() { DROP_COST } else { 1.0 } * threshold;
        if !(lowest <= limit && recent <= MAX_RECENT_COST * threshold) {
            self.end_gesture(index, recognised_at);
            return;
        }
        // Takes that fit almost as well as the best contribute to the estimate of the end.
        let (mut total_weight, mut seconds, mut share, mut length) = (0.0, 0.0, 0.0, 0.0);
        for (_, frames) in gesture_takes() {
            let (from, to) = window(frames);
            let Some((at, path)) = self.best(frames, from, to, started.clone()) else {
                continue;
            };
            let weight = (-10.0 * (path.mean() - lowest) / threshold).exp();
            let elapsed = (self.frame - path.begin) as f32;
            let tempo = (at as f32 + TEMPO_PRIOR_FRAMES) / (elapsed + TEMPO_PRIOR_FRAMES);
            let frames_left = (frames.len() - 1 - at) as f32 / tempo - HALF as f32;
            total_weight += weight;
            seconds += weight * frames_left / RATE as f32;
            share += weight * (at as f32 + tempo * HALF as f32) / (frames.len() - 1) as f32;
            length += weight * frames.len() as f32;
        }
        let (seconds, share, length) = (
            seconds / total_weight,
            share / total_weight,
            length / total_weight,
        );
        if seconds <= 0.0 {
            let overlap = (MAX_OVERLAP * length) as i64;
            self.end_gesture(index, recognised_at.map(|_| self.frame - overlap));
            return;
        }
        let is_standing = recognised_at.is_some()
            && speed < STANDING_SPEED * mean_speed
            && take_speed >= STANDING_SPEED * mean_speed;
        let standing_frames = if is_standing { standing_frames + 1 } else { 0 };
        if standing_frames >= BREAK_OFF_FRAMES && share < NEAR_END {
            self.end_gesture(index, recognised_at);
            return;
        }
        self.gestures[index].standing_frames = standing_frames;
        self.gestures[index].recognised_at = recognised_at.or(Some(self.frame));
        self.found[index] = Some(Spotted {
            progress: share.clamp(0.0, 1.0),
            seconds,
            likelihood: 1.0 / (1.0 + (LIKELIHOOD_SLOPE * (lowest / threshold - 1.0)).exp()),
        });
    }

    /// Ends the gesture; paths that started before `barrier` are not reported again.
    fn end_gesture(&mut self, index: usize, barrier: Option<i64>) {
        let gesture = &mut self.gestures[index];
        gesture.barrier = barrier.unwrap_or(gesture.barrier);
        (gesture.recognised_at, gesture.standing_frames) = (None, 0);
        self.found[index] = None;
    }
}

/// The length of a velocity.
fn size(velocity: &Posture) -> f32 {
    dot(velocity, velocity).sqrt()
}

fn check(
    takes: &[(usize, &[CanonicalPose])],
    thresholds: &[f64],
    entry_share: f64,
) -> Result<(), MemoryError> {
    let option = |option, expected, actual| MemoryError::Option {
        option,
        expected,
        given: actual,
    };
    if !(0.1..=0.8).contains(&entry_share) {
        return Err(option("at", "0.1 to 0.8", entry_share.to_string()));
    }
    if let Some(value) = thresholds.iter().find(|t| !(1e-4..=10.0).contains(*t)) {
        return Err(option("thresholds", "0.0001 to 10", value.to_string()));
    }
    let lengths: Vec<usize> = takes.iter().map(|(_, take)| take.len()).collect();
    let shape = |expected: String| MemoryError::Shape {
        what: "takes",
        expected,
        given: format!("{} of {} frames", lengths.len(), lengths.iter().sum::<usize>()),
    };
    if lengths.len() > MAX_TAKES || lengths.iter().sum::<usize>() > MAX_FRAMES {
        return Err(shape(format!(
            "at most {MAX_TAKES} of {MAX_FRAMES} frames together"
        )));
    }
    if let Some(length) = lengths.iter().find(|length| !GESTURE_FRAMES.contains(length)) {
        let (shortest, longest) = (GESTURE_FRAMES.start, GESTURE_FRAMES.end - 1);
        return Err(MemoryError::Shape {
            what: "a take",
            expected: format!("{shortest} to {longest} frames"),
            given: format!("{length}"),
        });
    }
    let has_take = |gesture: usize| takes.iter().any(|(of, _)| *of == gesture);
    if thresholds.is_empty()
        || !(0..thresholds.len()).all(has_take)
        || takes.iter().any(|(of, _)| *of >= thresholds.len())
    {
        return Err(shape(format!("some of each of {} gestures", thresholds.len())));
    }
    Ok(())
}
