//! The takes that were rehearsed, as postures and velocities.

use std::ops::Range;

use anticip_motion::CanonicalPose;

use super::posture::{Carriers, ENDS, HALF, Posture, Viewer, middle, velocity};
use crate::MemoryError;

/// Frames between two moments that the fine place is found among.
pub(super) const MOMENT: usize = 2;
/// Ten hours.
const MOST_FRAMES: usize = 1_800_000;

/// Takes one after the other, and how far apart unrelated moments of them are.
#[derive(Debug, Clone)]
pub(super) struct Rehearsal {
    pub(super) places: Vec<Posture>,
    pub(super) velocities: Vec<Posture>,
    /// Every second posture of every take as it is, not the mean over its neighbours.
    pub(super) moments: Vec<Vec<Posture>>,
    /// Of the same frames the rotations that carry it.
    pub(super) carriers: Vec<Vec<Carriers>>,
    take_of: Vec<u32>,
    /// The first frame of every take, and the one after the last.
    starts: Vec<usize>,
    pub(super) whole: Scale,
    /// Of hands, feet and head alone.
    pub(super) ends: Scale,
}

/// Mean squared distance between two moments drawn by chance: of postures (m^2) and velocities ((m/s)^2).
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    pub(super) place: f32,
    pub(super) velocity: f32,
}

impl Rehearsal {
    pub(super) fn new(takes: &[&[CanonicalPose]]) -> Result<Self, MemoryError> {
        if takes.is_empty() || takes.iter().any(|take| take.is_empty()) {
            return Err(MemoryError::Shape {
                what: "takes",
                expected: "at least one, each with a frame".to_owned(),
                given: format!(
                    "{:?} frames",
                    takes.iter().map(|take| take.len()).collect::<Vec<_>>()
                ),
            });
        }
        let frames: usize = takes.iter().map(|take| take.len()).sum();
        if frames > MOST_FRAMES {
            return Err(MemoryError::Shape {
                what: "takes",
                expected: format!("at most {MOST_FRAMES} frames in all"),
                given: frames.to_string(),
            });
        }
        let mut places = Vec::with_capacity(frames);
        let mut velocities = Vec::with_capacity(frames);
        let mut take_of = Vec::with_capacity(frames);
        let mut moments = Vec::with_capacity(takes.len());
        let mut carriers = Vec::with_capacity(takes.len());
        let mut starts = vec![0];
        for (number, take) in takes.iter().enumerate() {
            let mut viewer = Viewer::default();
            let see = |pose| (viewer.push(pose), viewer.carriers());
            let (seen, carried): (Vec<Posture>, Vec<Carriers>) = take.iter().map(see).unzip();
            let within = |i: usize| &seen[i.saturating_sub(HALF).min(seen.len() - 1)];
            velocities.extend((0..seen.len()).map(|i| velocity(|k| within(i + k))));
            take_of.extend(std::iter::repeat_n(number as u32, seen.len()));
            places.extend((0..seen.len()).map(|i| middle(|k| within(i + k))));
            starts.push(places.len());
            moments.push(seen.iter().step_by(MOMENT).copied().collect());
            carriers.push(carried.into_iter().step_by(MOMENT).collect());
        }
        let scale = |numbers: usize| Scale {
            // Who stands still all the time differs by a few centimetres all the same.
            place: spread(&places, numbers).max(1e-3 * numbers as f32),
            velocity: spread(&velocities, numbers).max(3e-3 * numbers as f32),
        };
        let (ends, whole) = (scale(ENDS), scale(2 * ENDS));
        Ok(Self {
            places,
            velocities,
            moments,
            carriers,
            take_of,
            starts,
            whole,
            ends,
        })
    }

    pub(super) fn takes(&self) -> usize {
        self.starts.len() - 1
    }

    /// The frames of a take.
    pub(super) fn frames(&self, take: usize) -> Range<usize> {
        self.starts[take]..self.starts[take + 1]
    }

    pub(super) fn take_of(&self, frame: usize) -> usize {
        self.take_of[frame] as usize
    }
}

/// Twice the summed variances of the first numbers: what two draws are apart.
fn spread(rows: &[Posture], numbers: usize) -> f32 {
    let count = rows.len() as f64;
    let variance = |d: usize| {
        let mean = rows.iter().map(|row| f64::from(row[d])).sum::<f64>() / count;
        rows.iter()
            .map(|row| (f64::from(row[d]) - mean).powi(2))
            .sum::<f64>()
            / count
    };
    (2.0 * (0..numbers).map(variance).sum::<f64>()) as f32
}
