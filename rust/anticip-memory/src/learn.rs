//! Learning of moments: a key every other frame, paired with what followed once the teacher has reported it.

use anticip_motion::twin::body::{Body, Rotations};
use anticip_motion::twin::{Ring, TwinColumns};

use crate::key::{FIRST_KEY_FRAME, Key, KeyMaker, Twin};
use crate::store::{FOLLOWED, Followed, MOMENT_STEP};
use crate::teacher::{TEACHER_REACH, TEACHER_START, Teacher};
use crate::{HORIZONS, PARAMETER_COUNT};

/// Maximum delay, in frames, from a frame to the teacher's output for it: its reach, or the start of a take.
pub(crate) const MAX_TEACHER_DELAY: usize = TEACHER_START + 1;

/// The farthest horizon of a moment, in frames.
const MAX_HORIZON: usize = HORIZONS[HORIZONS.len() - 1];

// The first outputs of a take come once it is long enough, all others one reach after their frame.
const _: () = assert!(TEACHER_REACH < MAX_TEACHER_DELAY);

/// Features of a frame, computed as it arrives.
#[derive(Debug, Clone)]
pub(crate) struct FrameFeatures {
    pub(crate) body: Body,
    pub(crate) twins: Twin,
    /// `None` in the first half second of a take.
    pub(crate) key: Option<Key>,
}

/// Turns a stream of frames into twin columns and keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct FeatureExtractor {
    twins: TwinColumns,
    keys: KeyMaker,
}

impl FeatureExtractor {
    pub(crate) fn reset(&mut self) {
        self.twins.reset();
        self.keys.reset();
    }

    #[inline(never)] // One copy of the code, so that prewarming reaches it.
    pub(crate) fn push(&mut self, pose: &Rotations) -> FrameFeatures {
        let body = Body::from_pose(pose);
        let twins = self.twins.push_body(&body);
        let key = self.keys.push(pose, &body, &twins);
        FrameFeatures { body, twins, key }
    }
}

/// The teacher's output for a past frame.
#[derive(Debug, Clone)]
pub(crate) struct TaughtFrame {
    pub(crate) frame: usize,
    pub(crate) parameters: [f64; PARAMETER_COUNT],
    /// The moment that has this frame as its farthest horizon, if it is learned: frame, key, and what
    /// followed.
    pub(crate) moment: Option<(usize, Key, Followed)>,
}

/// Learns what followed each moment of a take, with the delay of the teacher.
#[derive(Debug, Clone)]
pub(crate) struct Learner {
    teacher: Teacher,
    pending: PendingMoments,
}

#[derive(Debug, Clone)]
struct PendingMoments {
    frames: usize,
    /// Keys of moments to be learned, waiting for what follows; a ring.
    keys: Vec<Option<Key>>,
    /// The teacher's newest outputs.
    taught: Ring<PARAMETER_COUNT>,
}

impl Default for Learner {
    fn default() -> Self {
        let keys = (MAX_TEACHER_DELAY + MAX_HORIZON) / MOMENT_STEP + 2;
        Self {
            teacher: Teacher::default(),
            pending: PendingMoments {
                frames: 0,
                keys: vec![None; keys],
                taught: Ring::new(MAX_HORIZON + 1),
            },
        }
    }
}

impl Learner {
    /// Adds a frame, whose moment is learned if `learned`; calls `emit` with each frame for which the teacher
    /// is done.
    pub(crate) fn push(&mut self, frame: &FrameFeatures, learned: bool, mut emit: impl FnMut(TaughtFrame)) {
        let pending = &mut self.pending;
        if let Some(moment) = moment_at(pending.frames) {
            let slot = moment % pending.keys.len();
            pending.keys[slot] = frame.key.filter(|_| learned);
        }
        pending.frames += 1;
        self.teacher
            .push_body(&frame.body, |row| emit(pending.complete(row)));
    }

    /// Drops the moments that wait for what follows.
    pub(crate) fn drop_pending(&mut self) {
        self.pending.keys.fill(None);
    }

    /// Ends the take and emits the rest of it.
    pub(crate) fn finish(&mut self, mut emit: impl FnMut(TaughtFrame)) {
        let pending = &mut self.pending;
        self.teacher.finish(|row| emit(pending.complete(row)));
        pending.frames = 0;
        pending.taught.clear();
    }
}

impl PendingMoments {
    fn complete(&mut self, parameters: [f64; PARAMETER_COUNT]) -> TaughtFrame {
        let frame = self.taught.len();
        self.taught.push(&parameters);
        let start = frame.checked_sub(MAX_HORIZON);
        let moment = start
            .and_then(|moment_frame| {
                Some((
                    moment_frame,
                    self.keys[moment_at(moment_frame)? % self.keys.len()]?,
                ))
            })
            .map(|(moment_frame, key)| {
                let mut followed = [0; FOLLOWED];
                for (slots, ahead) in followed
                    .as_chunks_mut::<PARAMETER_COUNT>()
                    .0
                    .iter_mut()
                    .zip(HORIZONS)
                {
                    for (slot, value) in slots.iter_mut().zip(self.taught.at(moment_frame + ahead)) {
                        *slot = (value * f64::from(u16::MAX)).round() as u16;
                    }
                }
                (moment_frame, key, followed)
            });
        TaughtFrame {
            frame,
            parameters,
            moment,
        }
    }
}

/// The index of a frame's moment within its take, if the frame has one.
fn moment_at(frame: usize) -> Option<usize> {
    let frames_since_first = frame.checked_sub(FIRST_KEY_FRAME)?;
    frames_since_first
        .is_multiple_of(MOMENT_STEP)
        .then_some(frames_since_first / MOMENT_STEP)
}

/// Number of moments in a take of this many frames.
pub(crate) fn moments_of(frames: usize) -> usize {
    frames
        .saturating_sub(FIRST_KEY_FRAME + MAX_HORIZON)
        .div_ceil(MOMENT_STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pose whose joints swing, each at its own pace.
    fn pose(frame: usize) -> Rotations {
        let t = frame as f64 / 50.0;
        std::array::from_fn(|joint| {
            let pace = 1.7 + 0.37 * (joint % 5) as f64;
            let (sin, cos) = (0.3 * (pace * t).sin() + 0.1 * (joint as f64 + 3.1 * t).sin()).sin_cos();
            [cos, 0.6 * sin, 0.0, 0.8 * sin]
        })
    }

    #[test]
    fn what_followed_a_moment_is_what_was_said_of_the_frames_after_it() {
        let (mut extractor, mut learner) = (FeatureExtractor::default(), Learner::default());
        let (mut keys, mut taught) = (Vec::new(), Vec::new());
        for frame in 0..400 {
            let features = extractor.push(&pose(frame));
            keys.push(features.key);
            learner.push(&features, true, |row| taught.push(row));
        }
        learner.finish(|row| taught.push(row));
        assert!(taught.iter().map(|row| row.frame).eq(0..400));
        let moments: Vec<_> = taught
            .iter()
            .filter_map(|row| Some((row.frame, row.moment.as_ref()?)))
            .collect();
        assert_eq!(moments.len(), moments_of(400));
        for (frame, (at, key, followed)) in moments {
            assert_eq!(at + MAX_HORIZON, frame);
            assert_eq!(Some(*key), keys[*at]);
            for (h, ahead) in HORIZONS.into_iter().enumerate() {
                for (p, truth) in taught[at + ahead].parameters.iter().enumerate() {
                    let stored = f64::from(followed[h * PARAMETER_COUNT + p]) / f64::from(u16::MAX);
                    assert!(
                        (stored - truth).abs() < 1e-5,
                        "{at} {h} {p}: {stored} for {truth}"
                    );
                }
            }
        }
    }
}
