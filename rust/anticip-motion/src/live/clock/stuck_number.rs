//! Detection of frame numbers that stand still while the frames go on.

use std::hash::{DefaultHasher, Hasher};

use anticip_wire::PoseUpdate;

use super::{CONFIRMED, Stamp};

/// Whether a sender's numbers count its frames.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StuckNumber {
    number: Option<u32>,
    /// Hash of the last frame with this number.
    content: u64,
    /// Consecutive different frames with the same number.
    repeats: u32,
    /// Consecutive frames with a new number each, counted while the number is stuck.
    changes: u32,
}

impl StuckNumber {
    /// Takes a frame that has the newest number; returns true if so many different frames had it that it is stuck. A
    /// frame that arrives twice, or is repeated by a halted sender, counts once.
    pub(super) fn push(&mut self, pose: &PoseUpdate) -> bool {
        let content = content_hash(pose);
        if pose.seq != self.number {
            (*self, self.number) = (Self::default(), pose.seq);
        } else if content != self.content {
            self.repeats += 1;
        }
        self.content = content;
        self.repeats >= CONFIRMED
    }

    /// Removes the number of `stamp` and of `newest` while numbers are stuck, until they count again.
    pub(super) fn remove(&mut self, stamp: Stamp, newest: &mut Stamp) -> Stamp {
        if self.repeats < CONFIRMED {
            return stamp;
        }
        newest.number = None;
        self.changes = if stamp.number == self.number {
            0
        } else {
            self.changes + 1
        };
        self.number = stamp.number;
        if self.changes >= CONFIRMED {
            *self = Self::default();
            return stamp;
        }
        Stamp {
            number: None,
            ..stamp
        }
    }
}

/// Hash of a frame's content, without its number.
fn content_hash(pose: &PoseUpdate) -> u64 {
    let joints = pose.joints.iter().flat_map(|joint| joint.rotation);
    let floats = joints.chain(pose.root.unwrap_or_default());
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(pose.time.unwrap_or_default().to_bits());
    floats.for_each(|value| hasher.write_u32(value.to_bits()));
    hasher.finish()
}
