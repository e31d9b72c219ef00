//! The takes that were rehearsed, as every second pose and posture.
//!
//! The 50 Hz grid's other frames lie halfway between; means and velocities are made of them where they are read.

use std::ops::Range;
use std::sync::Arc;

use anticip_motion::CanonicalPose;

use super::posture::{
    ENDS, KeptPose, KeptPosture, Posture, Viewer, at_moment, between_moments, keep, metres,
};
use crate::MemoryError;

/// Frames between two moments that are kept.
pub(super) const MOMENT: usize = 2;
/// Ten hours.
const MOST_FRAMES: usize = 1_800_000;
/// Moments before and after those of a frame that its mean and velocity are of.
const AROUND: usize = 2;

/// A take: every second pose and the posture in it.
#[derive(Debug, Clone)]
struct Take {
    frames: usize,
    poses: Arc<[KeptPose]>,
    postures: Vec<KeptPosture>,
}

/// Takes one after the other, and how far apart unrelated moments of them are.
#[derive(Debug, Clone)]
pub(super) struct Rehearsal {
    takes: Vec<Take>,
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

impl Take {
    fn of(poses: &[CanonicalPose]) -> Self {
        let mut viewer = Viewer::default();
        let moments = poses.len().div_ceil(MOMENT);
        let (mut kept, mut postures) = (Vec::with_capacity(moments), Vec::with_capacity(moments));
        for pose in poses.iter().step_by(MOMENT) {
            postures.push(keep(&viewer.push(pose)));
            kept.push(viewer.kept());
        }
        Self {
            frames: poses.len(),
            poses: kept.into(),
            postures,
        }
    }

    /// What [`Rehearsal::seen`] does.
    #[inline(always)]
    fn seen(&self, frames: Range<usize>, known: &mut Vec<Posture>, mut see: impl FnMut(&[Posture; 2])) {
        let last = self.postures.len() - 1;
        let moments = frames.start / MOMENT..frames.end.div_ceil(MOMENT) + 2 * AROUND;
        known.clear();
        known.extend(moments.map(|moment| metres(&self.postures[moment.saturating_sub(AROUND).min(last)])));
        for frame in frames.clone() {
            let around = known[frame / MOMENT - frames.start / MOMENT..].first_chunk();
            let [a, b, c, d, e] = around.expect("so many are known");
            see(&if frame.is_multiple_of(MOMENT) {
                at_moment([a, b, c, d, e])
            } else {
                between_moments([b, c, d, e])
            });
        }
    }
}

impl Rehearsal {
    pub(super) fn new<T: AsRef<[CanonicalPose]>>(
        takes: impl IntoIterator<Item = T>,
    ) -> Result<Self, MemoryError> {
        let (mut found, mut starts) = (Vec::new(), vec![0]);
        for poses in takes {
            let poses = poses.as_ref();
            let frames = starts[found.len()] + poses.len();
            if poses.is_empty() {
                return Err(refused(
                    "at least one, each with a frame".to_owned(),
                    "one of none",
                ));
            }
            if frames > MOST_FRAMES {
                return Err(refused(
                    format!("at most {MOST_FRAMES} frames in all"),
                    &frames.to_string(),
                ));
            }
            found.push(Take::of(poses));
            starts.push(frames);
        }
        if found.is_empty() {
            return Err(refused("at least one, each with a frame".to_owned(), "none"));
        }
        let spread = spread(&found);
        let scale = |numbers: usize| Scale {
            // Who stands still all the time differs by a few centimetres all the same.
            place: spread(0, numbers).max(1e-3 * numbers as f32),
            velocity: spread(1, numbers).max(3e-3 * numbers as f32),
        };
        Ok(Self {
            whole: scale(2 * ENDS),
            ends: scale(ENDS),
            takes: found,
            starts,
        })
    }

    pub(super) fn takes(&self) -> usize {
        self.takes.len()
    }

    /// The frames of a take, numbered through all takes, as all frames here are.
    pub(super) fn frames(&self, take: usize) -> Range<usize> {
        self.starts[take]..self.starts[take + 1]
    }

    pub(super) fn all(&self) -> usize {
        self.starts[self.takes()]
    }

    pub(super) fn take_of(&self, frame: usize) -> usize {
        self.starts.partition_point(|start| *start <= frame) - 1
    }

    /// The mean posture and the velocity at each of these frames of a take; `known` is room to work in.
    #[inline(always)]
    pub(super) fn seen(
        &self,
        take: usize,
        frames: Range<usize>,
        known: &mut Vec<Posture>,
        see: impl FnMut(&[Posture; 2]),
    ) {
        let start = self.starts[take];
        self.takes[take].seen(frames.start - start..frames.end - start, known, see);
    }

    /// The posture at a moment of a take as it is, not the mean over its neighbours.
    pub(super) fn moment(&self, take: usize, moment: usize) -> Option<Posture> {
        self.takes[take].postures.get(moment).map(metres)
    }

    /// The pose at a frame or just before it.
    pub(super) fn pose(&self, take: usize, frame: usize) -> &KeptPose {
        &self.takes[take].poses[(frame - self.starts[take]) / MOMENT]
    }

    /// Every second pose of a take.
    pub(super) fn poses(&self, take: usize) -> Option<Arc<[KeptPose]>> {
        self.takes.get(take).map(|take| take.poses.clone())
    }
}

fn refused(expected: String, given: &str) -> MemoryError {
    MemoryError::Shape {
        what: "takes",
        expected,
        given: given.to_owned(),
    }
}

/// Twice the summed variances of the first numbers of postures (0) and velocities (1): what two draws are apart.
fn spread(takes: &[Take]) -> impl Fn(usize, usize) -> f32 + use<> {
    let mut known = Vec::new();
    let mut each = |act: &mut dyn FnMut(usize, usize, f64)| {
        for take in takes {
            take.seen(0..take.frames, &mut known, |seen| {
                for (what, posture) in seen.iter().enumerate() {
                    for (n, v) in posture[..2 * ENDS].iter().enumerate() {
                        act(what, n, f64::from(*v));
                    }
                }
            });
        }
    };
    let count = takes.iter().map(|take| take.frames).sum::<usize>() as f64;
    let (mut means, mut squares) = ([[0.0; 2 * ENDS]; 2], [[0.0; 2 * ENDS]; 2]);
    each(&mut |what, n, v| means[what][n] += v / count);
    each(&mut |what, n, v| squares[what][n] += (v - means[what][n]).powi(2) / count);
    move |what, numbers| (2.0 * squares[what][..numbers].iter().sum::<f64>()) as f32
}
