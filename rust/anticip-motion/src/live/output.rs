//! Output and counters of the front end.

use crate::features::{CanonicalPose, FEATURE_COUNT};
use crate::limbs::Limb;
use crate::resample::MAX_GAP;
use crate::tempo::Tempo;

/// Most rows of one datagram: it may end a second gap in a row, and the first waits for it.
const CAPACITY: usize = 2 * (MAX_GAP as usize + 1);

/// Processing time of one datagram, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stages {
    /// Decoding bytes to a pose.
    pub decode: i64,
    /// Retargeting and resampling.
    pub resample: i64,
    /// Scalars and features.
    pub scalars: i64,
}

/// The grid frames that one datagram completed; the newest of them in full.
#[derive(Debug, Clone, PartialEq)]
pub struct FrontOutput {
    /// One feature row for each grid frame, in time order; more than one if a gap was filled or the source is slower
    /// than the grid.
    pub rows: Vec<[f32; FEATURE_COUNT]>,
    /// True if the first row starts a new stream: consumers must start from a fresh state.
    pub reset: bool,
    /// Grid index of the newest row, counted from the first frame of the stream.
    pub seq: u64,
    /// Source time of the newest row, nanoseconds of the source's clock.
    pub t_source_ns: i64,
    /// The same instant on the local monotonic clock: the earliest arrival of a frame of that time, by the envelope
    /// and drift of the delays of the last twenty seconds.
    pub t_local_ns: i64,
    /// Local time at which the datagram that completes the next grid frame is expected.
    pub expected_ns: i64,
    /// Local time from which on the next grid frame is late. That is `expected_ns` plus a quarter of the grid
    /// interval and the current jitter; or the frame's own time, if it is nearer to the source frame before it than
    /// to the one that completes it, or if that one would come more than 10 ms later.
    pub late_ns: i64,
    /// The seven scalars of the newest row.
    pub scalars: [f64; 7],
    /// Canonical local rotations of each row, w, x, y, z.
    pub poses: Vec<CanonicalPose>,
    /// Position of the hips in the newest row, metres.
    pub root: [f32; 3],
    /// 0 while the body stands still, 1 while it moves, in the newest row; 1 without a noise gate.
    pub activity: f32,
    /// The tempo of the body's movement in the newest row.
    pub tempo: Tempo,
    /// The four limbs in the newest row; strokes are those of any row.
    pub limbs: [Limb; 4],
    /// How many of the rows fill a gap.
    pub filled: u32,
    /// False if more than a tenth of the joint-frames in the scalars' window were not measured.
    pub valid: bool,
    /// Processing time.
    pub stages: Stages,
}

impl FrontOutput {
    /// Merges this output with a newer one as if one datagram had completed both: rows of both, the strongest stroke
    /// of each limb, and the newest value of everything else.
    #[must_use]
    pub fn merge(mut self, mut newer: Self) -> Self {
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

    /// Sets the times from seconds: source, local, expected, late.
    pub(super) fn set_times(&mut self, seconds: [f64; 4]) {
        let [source, local, expected, late] = seconds.map(|s| (s * 1e9) as i64);
        (self.t_source_ns, self.t_local_ns) = (source, local);
        (self.expected_ns, self.late_ns) = (expected, late);
    }
}

impl Default for FrontOutput {
    /// No frame yet; with capacity for the longest gaps.
    fn default() -> Self {
        Self {
            rows: Vec::with_capacity(CAPACITY),
            reset: false,
            seq: 0,
            t_source_ns: 0,
            t_local_ns: 0,
            expected_ns: 0,
            late_ns: 0,
            scalars: [0.0; 7],
            poses: Vec::with_capacity(CAPACITY),
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

/// Counts since a front end was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams received.
    pub packets: u64,
    /// Frames accepted.
    pub frames: u64,
    /// Accepted frames with a number; without numbers losses cannot be counted.
    pub numbered: u64,
    /// Grid frames output.
    pub emitted: u64,
    /// Output grid frames that filled a gap.
    pub filled: u64,
    /// Frames whose number never arrived.
    pub lost: u64,
    /// Frames that had already arrived.
    pub doubled: u64,
    /// Frames that arrived after a newer one; they are dropped.
    pub reordered: u64,
    /// Truncated datagrams.
    pub truncated: u64,
    /// Invalid datagrams of the right protocol.
    pub malformed: u64,
    /// Datagrams of another protocol.
    pub alien: u64,
    /// Frames whose number or time is not of this stream's clock.
    pub strange: u64,
    /// Frames of a body that cannot be played.
    pub refused: u64,
    /// Datagrams of senders that are not active.
    pub ignored: u64,
    /// How often a stream started, the first time included.
    pub resets: u64,
}

impl Counters {
    /// Counts a frame that arrived after a newer one; `lost`: it had been counted as lost.
    pub(super) fn count_late(&mut self, lost: bool) {
        self.lost = self.lost.saturating_sub(u64::from(lost));
        self.reordered += 1;
    }

    /// All counters with their names.
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
        let merged = output(1, 2, true).merge(output(2, 1, false));
        let firsts: Vec<f32> = merged.rows.iter().map(|row| row[0]).collect();
        assert_eq!((firsts.as_slice(), merged.poses.len()), (&[1.0, 1.0, 2.0][..], 3));
        assert_eq!((merged.seq, merged.reset, merged.filled), (2, true, 1));
        assert_eq!(merged.limbs.map(|limb| limb.stroke), [0.0, 1.0, 2.0, 0.0]);
        assert_eq!(merged.stages.scalars, 20);
        // Rows before a new start belong to a stream that is over.
        let again = output(1, 2, false).merge(output(2, 1, true));
        assert_eq!((again.rows.len(), again.poses.len(), again.filled), (1, 1, 0));
        assert_eq!((again.reset, again.limbs[1].stroke), (true, 0.0));
    }
}
