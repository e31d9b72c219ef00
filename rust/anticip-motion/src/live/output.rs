//! What the front end gives, and what it counts.

use crate::features::{CanonicalPose, FEATURE_COUNT};
use crate::limbs::Limb;
use crate::resample::MAX_GAP;
use crate::tempo::Tempo;

/// Time spent on one datagram, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stages {
    /// Bytes to a pose.
    pub decode: i64,
    /// Retargeting and resampling.
    pub resample: i64,
    /// Scalars and features.
    pub scalars: i64,
}

/// The grid frames one datagram completed, the newest of them in full.
#[derive(Debug, Clone, PartialEq)]
pub struct FrontOutput {
    /// One row of features a grid frame, in time order; more than one where a gap was filled or the source is slower
    /// than the grid.
    pub rows: Vec<[f32; FEATURE_COUNT]>,
    /// True when the first row begins the stream anew: whatever follows the features starts from a fresh state.
    pub reset: bool,
    /// Grid index of the newest row, counted from the first frame of the stream.
    pub seq: u64,
    /// Source time of the newest row, nanoseconds of the source's clock.
    pub t_source_ns: i64,
    /// The same instant on the local monotonic clock: when a frame of that time arrives at the earliest, by the
    /// envelope of the delays of the last twenty seconds and its drift.
    pub t_local_ns: i64,
    /// Local time at which the datagram that completes the next grid frame is expected.
    pub expected_ns: i64,
    /// Local time from which on the next grid frame is late: a quarter of its interval and the jitter so far past
    /// `expected_ns`, or its own time where it is nearer to the source's frame before it than to the one that completes
    /// it, or that would be 10 ms later.
    pub late_ns: i64,
    /// The seven scalars of the newest row.
    pub scalars: [f64; 7],
    /// Canonical local rotations of each row, w, x, y, z.
    pub poses: Vec<CanonicalPose>,
    /// Position of the hips in the newest row, metres.
    pub root: [f32; 3],
    /// 0 while the body stands still in the newest row, 1 while it moves; 1 without a noise gate.
    pub activity: f32,
    /// The beat that the body keeps, in the newest row.
    pub tempo: Tempo,
    /// The four limbs in the newest row; a stroke is that of any of the rows.
    pub limbs: [Limb; 4],
    /// How many of the rows fill a gap.
    pub filled: u32,
    /// False while more than a tenth of the scalar window's joint-frames were not measured.
    pub valid: bool,
    /// Time spent.
    pub stages: Stages,
}

impl FrontOutput {
    /// This and what the datagrams after it completed, as of one datagram: the rows of both, the strokes of either, and all
    /// else of the newest.
    #[must_use]
    pub fn joined(mut self, mut newer: Self) -> Self {
        if !newer.reset {
            self.rows.append(&mut newer.rows);
            self.poses.append(&mut newer.poses);
            (newer.rows, newer.poses) = (self.rows, self.poses);
            newer.reset = self.reset;
            newer.filled += self.filled;
            for (limb, before) in newer.limbs.iter_mut().zip(self.limbs) {
                limb.stroke = limb.stroke.max(before.stroke);
            }
        }
        newer.stages.decode += self.stages.decode;
        newer.stages.resample += self.stages.resample;
        newer.stages.scalars += self.stages.scalars;
        newer
    }

    /// Seconds: of the source, local, expected, late.
    pub(super) fn set_times(&mut self, seconds: [f64; 4]) {
        let [source, local, expected, late] = seconds.map(|s| (s * 1e9) as i64);
        (self.t_source_ns, self.t_local_ns) = (source, local);
        (self.expected_ns, self.late_ns) = (expected, late);
    }
}

impl Default for FrontOutput {
    /// Nothing yet, and room for the longest gap.
    fn default() -> Self {
        Self {
            rows: Vec::with_capacity(MAX_GAP as usize + 1),
            reset: false,
            seq: 0,
            t_source_ns: 0,
            t_local_ns: 0,
            expected_ns: 0,
            late_ns: 0,
            scalars: [0.0; 7],
            poses: Vec::with_capacity(MAX_GAP as usize + 1),
            root: [0.0; 3],
            activity: 1.0,
            tempo: Tempo::default(),
            limbs: [Limb::default(); 4],
            filled: 0,
            valid: true,
            stages: Stages::default(),
        }
    }
}

/// What was counted since a front end was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams taken.
    pub packets: u64,
    /// Frames accepted from them.
    pub frames: u64,
    /// Frames among them that have a number, without which no loss can be told.
    pub numbered: u64,
    /// Grid frames given.
    pub emitted: u64,
    /// Grid frames among them that filled a gap.
    pub filled: u64,
    /// Frames whose number never came.
    pub lost: u64,
    /// Frames that had come before.
    pub doubled: u64,
    /// Frames that came after a newer one; they are dropped.
    pub reordered: u64,
    /// Datagrams cut short.
    pub truncated: u64,
    /// Datagrams of the right protocol that make no sense.
    pub malformed: u64,
    /// Datagrams of another protocol.
    pub alien: u64,
    /// Frames whose number or time belongs to another clock than the stream's.
    pub strange: u64,
    /// Frames of a body that was refused.
    pub refused: u64,
    /// Datagrams of senders that do not play.
    pub ignored: u64,
    /// How often the stream began anew, its first beginning included.
    pub resets: u64,
}

impl Counters {
    /// A frame came after a newer one, with which it was counted as lost where its number told so.
    pub(super) fn overtaken(&mut self, lost: bool) {
        self.lost = self.lost.saturating_sub(u64::from(lost));
        self.reordered += 1;
    }

    /// Every counter with its name.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 15] {
        [
            ("packets", self.packets),
            ("frames", self.frames),
            ("numbered", self.numbered),
            ("emitted", self.emitted),
            ("filled", self.filled),
            ("lost", self.lost),
            ("doubled", self.doubled),
            ("reordered", self.reordered),
            ("truncated", self.truncated),
            ("malformed", self.malformed),
            ("alien", self.alien),
            ("strange", self.strange),
            ("refused", self.refused),
            ("ignored", self.ignored),
            ("resets", self.resets),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(seq: u64, rows: usize, reset: bool) -> FrontOutput {
        let mut out = FrontOutput {
            rows: vec![[seq as f32; FEATURE_COUNT]; rows],
            poses: vec![CanonicalPose::default(); rows],
            reset,
            seq,
            filled: rows as u32 - 1,
            ..FrontOutput::default()
        };
        out.limbs[seq as usize % 4].stroke = seq as f32;
        out.stages.scalars = 10;
        out
    }

    #[test]
    fn outputs_joined_are_those_of_one_datagram() {
        let joined = output(1, 2, true).joined(output(2, 1, false));
        let firsts: Vec<f32> = joined.rows.iter().map(|row| row[0]).collect();
        assert_eq!((firsts.as_slice(), joined.poses.len()), (&[1.0, 1.0, 2.0][..], 3));
        assert_eq!((joined.seq, joined.reset, joined.filled), (2, true, 1));
        assert_eq!(joined.limbs.map(|limb| limb.stroke), [0.0, 1.0, 2.0, 0.0]);
        assert_eq!(joined.stages.scalars, 20);
        // What was before a new beginning belongs to a stream that is over.
        let anew = output(1, 2, false).joined(output(2, 1, true));
        assert_eq!((anew.rows.len(), anew.poses.len(), anew.filled), (1, 1, 0));
        assert_eq!((anew.reset, anew.limbs[1].stroke), (true, 0.0));
    }
}
