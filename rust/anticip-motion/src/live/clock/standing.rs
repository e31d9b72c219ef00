//! Numbers that stand still while their frames go on.

use std::hash::{DefaultHasher, Hasher};

use anticip_wire::PoseUpdate;

use super::{CONFIRMED, Stamp};

/// Whether a sender's numbers count its frames.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Standing {
    number: Option<u32>,
    /// What the last frame with this number held.
    content: u64,
    /// Frames in a row, each another, that had one number; and that had another number each, once the first were many.
    alike: u32,
    moving: u32,
}

impl Standing {
    /// A frame that has the newest's number; true where so many others had it that it tells nothing. A frame that came
    /// twice, or a sender that was halted and repeats itself, is the same frame.
    pub(super) fn repeat(&mut self, pose: &PoseUpdate) -> bool {
        let content = content(pose);
        if pose.seq != self.number {
            (*self, self.number) = (Self::default(), pose.seq);
        } else if content != self.content {
            self.alike += 1;
        }
        self.content = content;
        self.alike >= CONFIRMED
    }

    /// The stamp without its number, and the newest without its own, where numbers stand still, until they go on.
    pub(super) fn believed(&mut self, stamp: Stamp, newest: &mut Stamp) -> Stamp {
        if self.alike < CONFIRMED {
            return stamp;
        }
        newest.number = None;
        self.moving = if stamp.number == self.number {
            0
        } else {
            self.moving + 1
        };
        self.number = stamp.number;
        if self.moving >= CONFIRMED {
            *self = Self::default();
            return stamp;
        }
        Stamp {
            number: None,
            ..stamp
        }
    }
}

/// A number that frames share which hold the same.
fn content(pose: &PoseUpdate) -> u64 {
    let joints = pose.joints.iter().flat_map(|joint| joint.rotation);
    let floats = joints.chain(pose.root.unwrap_or_default());
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(pose.time.unwrap_or_default().to_bits());
    floats.for_each(|value| hasher.write_u32(value.to_bits()));
    hasher.finish()
}
