//! The rehearsed takes, stored as every second pose and posture.
//!
//! Frames between are interpolated; means and velocities are computed where they are read.

use std::ops::Range;
use std::sync::Arc;

use anticip_motion::CanonicalPose;

use super::posture::{
    ENDS, KeptPose, KeptPosture, Posture, Viewer, at_moment, between_moments, keep, metres,
};
use crate::MemoryError;

/// Frames between two stored moments.
pub(super) const MOMENT: usize = 2;
/// Maximum number of frames in all takes: ten hours.
const MAX_FRAMES: usize = 1_800_000;
/// Moments on either side of a frame's that its mean and velocity need.
const NEIGHBOURS: usize = 2;

/// A take: every second pose and its posture.
#[derive(Debug, Clone)]
struct Take {
    frames: usize,
    poses: Arc<[KeptPose]>,
    postures: Vec<KeptPosture>,
}

/// Takes one after another, and how much unrelated moments of them differ.
#[derive(Debug, Clone)]
pub(super) struct Rehearsal {
    takes: Vec<Take>,
    /// First frame of each take, and the total number of frames.
    starts: Vec<usize>,
    /// Differences over all coordinates.
    pub(super) whole: Scale,
    /// Differences over hands, feet and head alone.
    pub(super) ends: Scale,
}

/// Mean squared difference of two random moments: postures (m^2) and velocities ((m/s)^2).
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

    /// See [`Rehearsal::for_each_frame`].
    #[inline(always)]
    fn for_each_frame(
        &self,
        frames: Range<usize>,
        buffer: &mut Vec<Posture>,
        mut visit: impl FnMut(&[Posture; 2]),
    ) {
        let last = self.postures.len() - 1;
        let moments = frames.start / MOMENT..frames.end.div_ceil(MOMENT) + 2 * NEIGHBOURS;
        buffer.clear();
        buffer.extend(
            moments.map(|moment| metres(&self.postures[moment.saturating_sub(NEIGHBOURS).min(last)])),
        );
        for frame in frames.clone() {
            let around = buffer[frame / MOMENT - frames.start / MOMENT..].first_chunk();
            let [a, b, c, d, e] = around.expect("the buffer has five postures per frame");
            visit(&if frame.is_multiple_of(MOMENT) {
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
        let (mut takes_read, mut starts) = (Vec::new(), vec![0]);
        for poses in takes {
            let poses = poses.as_ref();
            let frames = starts[takes_read.len()] + poses.len();
            if poses.is_empty() {
                return Err(takes_error(
                    "at least one, each with a frame".to_owned(),
                    "one of none",
                ));
            }
            if frames > MAX_FRAMES {
                return Err(takes_error(
                    format!("at most {MAX_FRAMES} frames in all"),
                    &frames.to_string(),
                ));
            }
            takes_read.push(Take::of(poses));
            starts.push(frames);
        }
        if takes_read.is_empty() {
            return Err(takes_error("at least one, each with a frame".to_owned(), "none"));
        }
        let spread = spread(&takes_read);
        let scale = |coordinates: usize| Scale {
            // Someone who stands still all the time differs by a few centimetres too.
            place: spread(0, coordinates).max(1e-3 * coordinates as f32),
            velocity: spread(1, coordinates).max(3e-3 * coordinates as f32),
        };
        Ok(Self {
            whole: scale(2 * ENDS),
            ends: scale(ENDS),
            takes: takes_read,
            starts,
        })
    }

    pub(super) fn takes(&self) -> usize {
        self.takes.len()
    }

    /// The frames of a take, numbered through all takes, as all frames here.
    pub(super) fn frames(&self, take: usize) -> Range<usize> {
        self.starts[take]..self.starts[take + 1]
    }

    pub(super) fn frame_count(&self) -> usize {
        self.starts[self.takes()]
    }

    pub(super) fn take_of(&self, frame: usize) -> usize {
        self.starts.partition_point(|start| *start <= frame) - 1
    }

    /// Calls `visit` with the mean posture and the velocity at each of these frames of a take; `buffer` is
    /// reused memory.
    #[inline(always)]
    pub(super) fn for_each_frame(
        &self,
        take: usize,
        frames: Range<usize>,
        buffer: &mut Vec<Posture>,
        visit: impl FnMut(&[Posture; 2]),
    ) {
        let start = self.starts[take];
        self.takes[take].for_each_frame(frames.start - start..frames.end - start, buffer, visit);
    }

    /// The posture at a moment of a take, not averaged over its neighbours.
    pub(super) fn moment(&self, take: usize, moment: usize) -> Option<Posture> {
        self.takes[take].postures.get(moment).map(metres)
    }

    /// The pose at a frame, or at the frame before it if that is not stored.
    pub(super) fn pose(&self, take: usize, frame: usize) -> &KeptPose {
        &self.takes[take].poses[(frame - self.starts[take]) / MOMENT]
    }

    /// Every second pose of a take.
    pub(super) fn poses(&self, take: usize) -> Option<Arc<[KeptPose]>> {
        self.takes.get(take).map(|take| take.poses.clone())
    }
}

fn takes_error(expected: String, given: &str) -> MemoryError {
    MemoryError::Shape {
        what: "takes",
        expected,
        given: given.to_owned(),
    }
}

/// Returns a function of kind (0 postures, 1 velocities) and number of coordinates: twice the summed
/// variances, the mean squared difference of two random moments.
fn spread(takes: &[Take]) -> impl Fn(usize, usize) -> f32 + use<> {
    let mut buffer = Vec::new();
    let mut each = |visit: &mut dyn FnMut(usize, usize, f64)| {
        for take in takes {
            take.for_each_frame(0..take.frames, &mut buffer, |observed| {
                for (kind, posture) in observed.iter().enumerate() {
                    for (n, v) in posture[..2 * ENDS].iter().enumerate() {
                        visit(kind, n, f64::from(*v));
                    }
                }
            });
        }
    };
    let count = takes.iter().map(|take| take.frames).sum::<usize>() as f64;
    let (mut means, mut squares) = ([[0.0; 2 * ENDS]; 2], [[0.0; 2 * ENDS]; 2]);
    each(&mut |kind, n, v| means[kind][n] += v / count);
    each(&mut |kind, n, v| squares[kind][n] += (v - means[kind][n]).powi(2) / count);
    move |kind, coordinates| (2.0 * squares[kind][..coordinates].iter().sum::<f64>()) as f32
}
