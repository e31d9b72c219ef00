//! Coarse search of the whole rehearsal, ten times a second: where else the performer may be.

use pulp::Arch;

use super::RATE;
use super::posture::{ENDS, Posture};
use super::rehearsal::Rehearsal;

/// Frames between two searches, and between two searched moments of the rehearsal.
pub(super) const SEARCH_STEP: usize = 5;

const LANES: usize = 8;
type Lane = [f32; LANES];

/// Scale of differences when a movement is repeated, as a share of the rms difference of unrelated moments:
/// postures.
const POSTURE_SCALE: f32 = 0.3;
/// The same for velocities.
const VELOCITY_SCALE: f32 = 0.6;
/// A moment whose difference (0..1) is below this raises the score of a path through it.
const SIMILAR: f32 = 0.7;
/// Factor on the slow score per search.
const SLOW_DECAY: f32 = 0.93;
/// Factor on the fast score per search, which finds performers who have just jumped.
const FAST_DECAY: f32 = 0.5;
/// Penalty of a path that stays at a moment or skips one.
const STEP_PENALTY: f32 = 0.02;
/// Minimum score of a candidate.
const MIN_SCORE: f32 = 0.3;
/// Candidates per score and search.
const CANDIDATES: usize = 1;
/// Frames for which a candidate is not proposed again.
const REPEAT_FRAMES: usize = 15;
/// Candidates within this many frames of each other, on the same course, count as the same.
const SAME_FRAMES: usize = 12;
/// Squared distance of unused moments, farther than any other.
const UNUSED_DISTANCE: f32 = 1e9;
/// Frame of unused moments.
const UNUSED: u32 = u32::MAX;
/// Stored units per metre and per m/s; values within 2 m and 16 m/s can be stored.
const UNITS: [f32; 2] = [16384.0, 2048.0];

/// Scores of the paths that lead to each moment (forward dynamic time warping with a free start).
#[derive(Debug, Clone)]
pub(super) struct Search {
    moments: Vec<Moments>,
    /// Frame of each moment; two unused ones before each take separate it from the last.
    frames: Vec<u32>,
    scores: Vec<f32>,
    next_scores: Vec<f32>,
    fast: Vec<f32>,
    fast_next: Vec<f32>,
    /// Inverse squared scale of differences: postures.
    place_weight: f32,
    /// The same of velocities.
    velocity_weight: f32,
    /// When each recent candidate was proposed, and its frame minus the current frame at the time.
    proposed: Vec<(usize, i64)>,
}

/// Eight moments side by side, for SIMD.
#[derive(Debug, Clone)]
struct Moments {
    places: [[i16; LANES]; ENDS],
    velocities: [[i16; LANES]; ENDS],
    place_squares: Lane,
    velocity_squares: Lane,
}

fn square(numbers: &[f32]) -> f32 {
    numbers.iter().map(|v| v * v).sum()
}

impl Search {
    pub(super) fn new(at: &Rehearsal) -> Self {
        let mut frames = Vec::new();
        for take in 0..at.takes() {
            frames.extend([UNUSED; 2]);
            frames.extend(at.frames(take).step_by(SEARCH_STEP).map(|frame| frame as u32));
        }
        frames.resize(frames.len().next_multiple_of(LANES), UNUSED);
        let empty = Moments {
            places: [[0; LANES]; ENDS],
            velocities: [[0; LANES]; ENDS],
            place_squares: [UNUSED_DISTANCE; LANES],
            velocity_squares: [0.0; LANES],
        };
        let mut moments = vec![empty; frames.len() / LANES];
        let mut known = Vec::new();
        for (cell, &frame) in frames.iter().enumerate().filter(|(_, frame)| **frame != UNUSED) {
            let (eight, lane, frame) = (&mut moments[cell / LANES], cell % LANES, frame as usize);
            at.for_each_frame(at.take_of(frame), frame..frame + 1, &mut known, |observed| {
                let [place, velocity]: [[i16; ENDS]; 2] = std::array::from_fn(|what| {
                    std::array::from_fn(|d| (observed[what][d] * UNITS[what]).round() as i16)
                });
                for d in 0..ENDS {
                    eight.places[d][lane] = place[d];
                    eight.velocities[d][lane] = velocity[d];
                }
                let metres = |of: &[i16; ENDS], unit: f32| square(&of.map(|v| f32::from(v) / unit));
                eight.place_squares[lane] = metres(&place, UNITS[0]);
                eight.velocity_squares[lane] = metres(&velocity, UNITS[1]);
            });
        }
        Self {
            scores: vec![0.0; frames.len() + 2],
            next_scores: vec![0.0; frames.len() + 2],
            fast: vec![0.0; frames.len() + 2],
            fast_next: vec![0.0; frames.len() + 2],
            moments,
            frames,
            place_weight: 1.0 / (at.ends.place * POSTURE_SCALE * POSTURE_SCALE),
            velocity_weight: 1.0 / (at.ends.velocity * VELOCITY_SCALE * VELOCITY_SCALE),
            proposed: Vec::new(),
        }
    }

    pub(super) fn reset(&mut self) {
        self.scores.fill(0.0);
        self.fast.fill(0.0);
        self.proposed.clear();
    }

    /// Adds the newest frame, every [`SEARCH_STEP`] frames. The two scores before the first moment stay zero.
    pub(super) fn push(&mut self, place: &Posture, velocity: &Posture) {
        let (place, velocity): (&[f32; ENDS], &[f32; ENDS]) = (
            place.first_chunk().expect("a posture is wider"),
            velocity.first_chunk().expect("a posture is wider"),
        );
        Arch::new().dispatch(|| self.compare(place, velocity));
        let before = self.fast.iter().zip(&self.fast[1..]).zip(&self.fast[2..]);
        for ((next, similarity), ((skipping, from), standing)) in self.fast_next[2..]
            .iter_mut()
            .zip(&self.next_scores[2..])
            .zip(before)
        {
            *next = (from.max(skipping.max(*standing) - STEP_PENALTY) * FAST_DECAY + similarity).max(0.0);
        }
        std::mem::swap(&mut self.fast, &mut self.fast_next);
        let before = self.scores.iter().zip(&self.scores[1..]).zip(&self.scores[2..]);
        for (next, ((skipping, from), standing)) in self.next_scores[2..].iter_mut().zip(before) {
            let best = from.max(skipping.max(*standing) - STEP_PENALTY);
            *next = (best * SLOW_DECAY + *next).max(0.0);
        }
        std::mem::swap(&mut self.scores, &mut self.next_scores);
    }

    /// Leaves in `next_scores` the similarity of each moment.
    #[inline(always)]
    fn compare(&mut self, place: &[f32; ENDS], velocity: &[f32; ENDS]) {
        let squares = [square(place), square(velocity)];
        let (place, velocity) = (place.map(|v| v / UNITS[0]), velocity.map(|v| v / UNITS[1]));
        let (similarities, _) = self.next_scores[2..].as_chunks_mut::<LANES>();
        for (eight, out) in self.moments.iter().zip(similarities) {
            *out = eight.similarity(
                &place,
                &velocity,
                squares,
                [self.place_weight, self.velocity_weight],
            );
        }
    }

    /// The frames with the best scores that are neither followed nor recently proposed, best last.
    pub(super) fn candidates(&mut self, now: usize, followed: impl Fn(usize) -> bool) -> Vec<usize> {
        self.proposed.retain(|(when, _)| now - when < REPEAT_FRAMES);
        let is_same = |a: i64, b: i64| a.abs_diff(b) <= SAME_FRAMES as u64;
        let mut out = Vec::with_capacity(2 * CANDIDATES);
        for scores in [&self.fast, &self.scores] {
            let mut best: Vec<(f32, usize, i64)> = Vec::with_capacity(CANDIDATES + 1);
            for (&score, &frame) in scores[2..].iter().zip(&self.frames) {
                let min_score = best.get(CANDIDATES - 1).map_or(MIN_SCORE, |last| last.0);
                if frame == UNUSED || score <= min_score || followed(frame as usize) {
                    continue;
                }
                let frame = frame as usize;
                let ahead = frame as i64 - now as i64;
                if self.proposed.iter().any(|n| is_same(n.1, ahead)) {
                    continue;
                }
                if let Some(same) = best.iter().position(|f| is_same(f.2, ahead)) {
                    if best[same].0 >= score {
                        continue;
                    }
                    best.remove(same);
                }
                let at = best.partition_point(|f| f.0 >= score);
                best.insert(at, (score, frame, ahead));
                best.truncate(CANDIDATES);
            }
            self.proposed.extend(best.iter().map(|f| (now, f.2)));
            out.extend(best.iter().map(|f| f.1));
        }
        out.reverse();
        out
    }
}

impl Moments {
    /// Similarity of each moment at the tempo that fits it best: from `SIMILAR` down to `SIMILAR` - 1.
    /// `place` and `velocity` are divided by the stored units.
    #[inline(always)]
    fn similarity(
        &self,
        place: &[f32; ENDS],
        velocity: &[f32; ENDS],
        squares: [f32; 2],
        scales: [f32; 2],
    ) -> Lane {
        let (mut position_dots, mut velocity_dots) = ([0.0; LANES], [0.0; LANES]);
        for d in 0..ENDS {
            for lane in 0..LANES {
                position_dots[lane] += place[d] * f32::from(self.places[d][lane]);
                velocity_dots[lane] += velocity[d] * f32::from(self.velocities[d][lane]);
            }
        }
        std::array::from_fn(|lane| {
            let position_error = (squares[0] + self.place_squares[lane] - 2.0 * position_dots[lane]).max(0.0);
            let rehearsed_square = self.velocity_squares[lane];
            let tempo = (velocity_dots[lane] / (rehearsed_square + 1e-6)).clamp(0.6, 1.5);
            let velocity_error = (squares[1]
                + tempo * (tempo * rehearsed_square - 2.0 * velocity_dots[lane]))
                .max(0.0)
                .min(squares[1]);
            let difference = position_error * scales[0] + velocity_error * scales[1];
            SIMILAR - difference / (1.0 + difference)
        })
    }
}

/// The decays above are for ten searches a second.
const _: () = assert!(RATE as usize == 10 * SEARCH_STEP);
