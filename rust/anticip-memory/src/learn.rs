//! Moments of a stream: a key every other frame, and the teacher's word on what followed, once it is known.

use anticip_motion::twin::body::{Body, Rotations};
use anticip_motion::twin::{Ring, TwinColumns};

use crate::key::{FIRST, Key, KeyMaker, Twin};
use crate::store::{FOLLOWED, Followed, MOMENT_STEP};
use crate::teacher::{TEACHER_REACH, TEACHER_START, Teacher};
use crate::{HORIZONS, PARAMETER_COUNT};

/// Frames at most between a frame and the teacher's word about it: its reach, or the start of a take.
pub(crate) const LATE: usize = TEACHER_START + 1;

/// The farthest frame that a moment remembers.
const FARTHEST: usize = HORIZONS[HORIZONS.len() - 1];

// A take's first words come when it is long enough, all others when the teacher's reach has passed.
const _: () = assert!(TEACHER_REACH < LATE);

/// What is read of a frame as it comes.
#[derive(Debug, Clone)]
pub(crate) struct FrameFeatures {
    pub(crate) body: Body,
    pub(crate) twins: Twin,
    /// Nothing in the first half second of a take.
    pub(crate) key: Option<Key>,
}

/// A stream of frames as twins and keys.
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

    #[inline(never)] // One piece of code: that which was prewarmed.
    pub(crate) fn push(&mut self, pose: &Rotations) -> FrameFeatures {
        let body = Body::of(pose);
        let twins = self.twins.push_body(&body);
        let key = self.keys.push(pose, &body, &twins);
        FrameFeatures { body, twins, key }
    }
}

/// What is known of a frame of the past.
#[derive(Debug, Clone)]
pub(crate) struct Taught {
    pub(crate) frame: usize,
    pub(crate) parameters: [f64; PARAMETER_COUNT],
    /// The moment whose farthest horizon this frame is, where it is learned: its frame, its key and what followed.
    pub(crate) moment: Option<(usize, Key, Followed)>,
}

/// Learns what followed each moment of a take, as late as the teacher says it.
#[derive(Debug, Clone)]
pub(crate) struct Learner {
    teacher: Teacher,
    words: Words,
}

#[derive(Debug, Clone)]
struct Words {
    frames: usize,
    /// Keys that wait for what follows, of moments that are learned.
    waiting: Vec<Option<Key>>,
    /// The teacher's newest words.
    taught: Ring<PARAMETER_COUNT>,
}

impl Default for Learner {
    fn default() -> Self {
        let waiting = (LATE + FARTHEST) / MOMENT_STEP + 2;
        Self {
            teacher: Teacher::default(),
            words: Words {
                frames: 0,
                waiting: vec![None; waiting],
                taught: Ring::new(FARTHEST + 1),
            },
        }
    }
}

impl Learner {
    /// Takes a frame, whose moment is `learned` or not; tells what is known since.
    pub(crate) fn push(&mut self, frame: &FrameFeatures, learned: bool, mut tell: impl FnMut(Taught)) {
        let words = &mut self.words;
        if let Some(moment) = moment_at(words.frames) {
            let slot = moment % words.waiting.len();
            words.waiting[slot] = frame.key.filter(|_| learned);
        }
        words.frames += 1;
        self.teacher.push_body(&frame.body, |row| tell(words.take(row)));
    }

    /// No moment so far is learned.
    pub(crate) fn forget(&mut self) {
        self.words.waiting.fill(None);
    }

    /// The take ends here: tells the rest of it.
    pub(crate) fn finish(&mut self, mut tell: impl FnMut(Taught)) {
        let words = &mut self.words;
        self.teacher.finish(|row| tell(words.take(row)));
        words.frames = 0;
        words.taught.clear();
    }
}

impl Words {
    fn take(&mut self, parameters: [f64; PARAMETER_COUNT]) -> Taught {
        let frame = self.taught.len();
        self.taught.push(&parameters);
        let past = frame.checked_sub(FARTHEST);
        let moment = past
            .and_then(|at| Some((at, self.waiting[moment_at(at)? % self.waiting.len()]?)))
            .map(|(at, key)| {
                let mut followed = [0; FOLLOWED];
                for (slots, ahead) in followed
                    .as_chunks_mut::<PARAMETER_COUNT>()
                    .0
                    .iter_mut()
                    .zip(HORIZONS)
                {
                    for (slot, value) in slots.iter_mut().zip(self.taught.at(at + ahead)) {
                        *slot = (value * f64::from(u16::MAX)).round() as u16;
                    }
                }
                (at, key, followed)
            });
        Taught {
            frame,
            parameters,
            moment,
        }
    }
}

/// Which moment of its take a frame is, if it is one.
fn moment_at(frame: usize) -> Option<usize> {
    let since = frame.checked_sub(FIRST)?;
    since.is_multiple_of(MOMENT_STEP).then_some(since / MOMENT_STEP)
}

/// How many moments a take of so many frames has.
pub(crate) fn moments_of(frames: usize) -> usize {
    frames.saturating_sub(FIRST + FARTHEST).div_ceil(MOMENT_STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body whose joints swing, each at its own pace.
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
            assert_eq!(at + FARTHEST, frame);
            assert_eq!(Some(*key), keys[*at]);
            for (h, ahead) in HORIZONS.into_iter().enumerate() {
                for (p, truth) in taught[at + ahead].parameters.iter().enumerate() {
                    let kept = f64::from(followed[h * PARAMETER_COUNT + p]) / f64::from(u16::MAX);
                    assert!((kept - truth).abs() < 1e-5, "{at} {h} {p}: {kept} for {truth}");
                }
            }
        }
    }
}
