//! A coarse look at the whole rehearsal ten times a second: where else the performer may be.

use pulp::Arch;

use super::RATE;
use super::posture::{ENDS, Posture};
use super::rehearsal::Rehearsal;

/// Frames between two looks, and between two moments of the rehearsal that are looked at.
pub(super) const EVERY: usize = 5;

const LANES: usize = 8;
type Lane = [f32; LANES];

/// What the same movement done again differs by, as a share of what unrelated moments do.
const POSTURE: f32 = 0.3;
const VELOCITY: f32 = 0.6;
/// A moment whose difference, between 0 and 1, is below this speaks for a way that leads through it.
const ALIKE: f32 = 0.7;
/// What is left of a way's score after a tenth of a second, and what it loses where it stands or skips a moment.
const FADE: f32 = 0.93;
/// The same of the score that forgets at once, which finds who has just jumped.
const QUICK: f32 = 0.5;
const UNEVEN: f32 = 0.02;
/// Scores below this are not looked at.
const LEAST: f32 = 0.3;
/// Candidates that each of the two scores names in a look.
const NAMED: usize = 1;
/// A candidate is not named again for so many frames, nor what runs within so many frames beside it.
const AGAIN: usize = 15;
const BESIDE: usize = 12;
/// Unused moments: further away than anything.
const FAR: f32 = 1e9;
const UNUSED: u32 = u32::MAX;
/// Whole units of what is kept to a metre and to a metre a second: within 2 m and 16 m/s.
const UNITS: [f32; 2] = [16384.0, 2048.0];

/// Scores of the ways that lead to each moment (a forward dynamic time warping that may begin anywhere).
#[derive(Debug, Clone)]
pub(super) struct Search {
    moments: Vec<Moments>,
    /// The frame of every moment; two unused ones before each take keep it apart from the last.
    frames: Vec<u32>,
    scores: Vec<f32>,
    next: Vec<f32>,
    quick: Vec<f32>,
    quick_next: Vec<f32>,
    place: f32,
    velocity: f32,
    /// When each of the latest candidates was named, and by how many frames it was ahead of the clock.
    named: Vec<(usize, i64)>,
}

/// Eight moments side by side.
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
            frames.extend(at.frames(take).step_by(EVERY).map(|frame| frame as u32));
        }
        frames.resize(frames.len().next_multiple_of(LANES), UNUSED);
        let empty = Moments {
            places: [[0; LANES]; ENDS],
            velocities: [[0; LANES]; ENDS],
            place_squares: [FAR; LANES],
            velocity_squares: [0.0; LANES],
        };
        let mut moments = vec![empty; frames.len() / LANES];
        let mut known = Vec::new();
        for (cell, &frame) in frames.iter().enumerate().filter(|(_, frame)| **frame != UNUSED) {
            let (eight, lane, frame) = (&mut moments[cell / LANES], cell % LANES, frame as usize);
            at.seen(at.take_of(frame), frame..frame + 1, &mut known, |seen| {
                let [place, velocity]: [[i16; ENDS]; 2] = std::array::from_fn(|what| {
                    std::array::from_fn(|d| (seen[what][d] * UNITS[what]).round() as i16)
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
            next: vec![0.0; frames.len() + 2],
            quick: vec![0.0; frames.len() + 2],
            quick_next: vec![0.0; frames.len() + 2],
            moments,
            frames,
            place: 1.0 / (at.ends.place * POSTURE * POSTURE),
            velocity: 1.0 / (at.ends.velocity * VELOCITY * VELOCITY),
            named: Vec::new(),
        }
    }

    pub(super) fn reset(&mut self) {
        self.scores.fill(0.0);
        self.quick.fill(0.0);
        self.named.clear();
    }

    /// Takes a tenth of a second's newest frame. The two scores before the first moment stay zero.
    pub(super) fn push(&mut self, place: &Posture, velocity: &Posture) {
        let (place, velocity): (&[f32; ENDS], &[f32; ENDS]) = (
            place.first_chunk().expect("a posture is wider"),
            velocity.first_chunk().expect("a posture is wider"),
        );
        Arch::new().dispatch(|| self.compare(place, velocity));
        let before = self.quick.iter().zip(&self.quick[1..]).zip(&self.quick[2..]);
        for ((next, alike), ((skipping, from), standing)) in
            self.quick_next[2..].iter_mut().zip(&self.next[2..]).zip(before)
        {
            *next = (from.max(skipping.max(*standing) - UNEVEN) * QUICK + alike).max(0.0);
        }
        std::mem::swap(&mut self.quick, &mut self.quick_next);
        let before = self.scores.iter().zip(&self.scores[1..]).zip(&self.scores[2..]);
        for (next, ((skipping, from), standing)) in self.next[2..].iter_mut().zip(before) {
            let best = from.max(skipping.max(*standing) - UNEVEN);
            *next = (best * FADE + *next).max(0.0);
        }
        std::mem::swap(&mut self.scores, &mut self.next);
    }

    /// Leaves in `next` how alike each moment is.
    #[inline(always)]
    fn compare(&mut self, place: &[f32; ENDS], velocity: &[f32; ENDS]) {
        let squares = [square(place), square(velocity)];
        let (place, velocity) = (place.map(|v| v / UNITS[0]), velocity.map(|v| v / UNITS[1]));
        let (alike, _) = self.next[2..].as_chunks_mut::<LANES>();
        for (eight, out) in self.moments.iter().zip(alike) {
            *out = eight.alike(&place, &velocity, squares, [self.place, self.velocity]);
        }
    }

    /// The frames with the best scores that are not followed yet and were not named of late, best last.
    pub(super) fn candidates(&mut self, now: usize, followed: impl Fn(usize) -> bool) -> Vec<usize> {
        self.named.retain(|(when, _)| now - when < AGAIN);
        let beside = |a: i64, b: i64| a.abs_diff(b) <= BESIDE as u64;
        let mut out = Vec::with_capacity(2 * NAMED);
        for scores in [&self.quick, &self.scores] {
            let mut found: Vec<(f32, usize, i64)> = Vec::with_capacity(NAMED + 1);
            for (&score, &frame) in scores[2..].iter().zip(&self.frames) {
                let least = found.get(NAMED - 1).map_or(LEAST, |last| last.0);
                if frame == UNUSED || score <= least || followed(frame as usize) {
                    continue;
                }
                let frame = frame as usize;
                let ahead = frame as i64 - now as i64;
                if self.named.iter().any(|n| beside(n.1, ahead)) {
                    continue;
                }
                if let Some(near) = found.iter().position(|f| beside(f.2, ahead)) {
                    if found[near].0 >= score {
                        continue;
                    }
                    found.remove(near);
                }
                let at = found.partition_point(|f| f.0 >= score);
                found.insert(at, (score, frame, ahead));
                found.truncate(NAMED);
            }
            self.named.extend(found.iter().map(|f| (now, f.2)));
            out.extend(found.iter().map(|f| f.1));
        }
        out.reverse();
        out
    }
}

impl Moments {
    /// How alike each moment is to what is seen, at the tempo that suits it best: from `ALIKE` down to `ALIKE` - 1.
    /// What is seen is divided by the units of what is kept.
    #[inline(always)]
    fn alike(
        &self,
        place: &[f32; ENDS],
        velocity: &[f32; ENDS],
        squares: [f32; 2],
        scales: [f32; 2],
    ) -> Lane {
        let (mut near, mut along) = ([0.0; LANES], [0.0; LANES]);
        for d in 0..ENDS {
            for lane in 0..LANES {
                near[lane] += place[d] * f32::from(self.places[d][lane]);
                along[lane] += velocity[d] * f32::from(self.velocities[d][lane]);
            }
        }
        std::array::from_fn(|lane| {
            let apart = (squares[0] + self.place_squares[lane] - 2.0 * near[lane]).max(0.0);
            let own = self.velocity_squares[lane];
            let tempo = (along[lane] / (own + 1e-6)).clamp(0.6, 1.5);
            let faster = (squares[1] + tempo * (tempo * own - 2.0 * along[lane]))
                .max(0.0)
                .min(squares[1]);
            let away = apart * scales[0] + faster * scales[1];
            ALIKE - away / (1.0 + away)
        })
    }
}

/// Seconds between two looks are those of the score's constants.
const _: () = assert!(RATE as usize == 10 * EVERY);
