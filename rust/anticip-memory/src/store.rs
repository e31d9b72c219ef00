//! What is remembered: keys, what followed them, and which take they are of.

use crate::key::{KEY_SIZE, Key, check};
use crate::sketch::{SKETCH, Sketch, sketch};
use crate::{HORIZONS, MemoryError, PARAMETER_COUNT};

/// How many numbers are remembered of what followed a moment: the parameters at each horizon.
pub const FOLLOWED: usize = HORIZONS.len() * PARAMETER_COUNT;

/// The teacher's parameters at each horizon after a moment, in 1/65535.
pub type Followed = [u16; FOLLOWED];

/// How many moments an hour of memory has.
pub const MOMENTS_AN_HOUR: usize = 90_000;

/// Every how many moments one is looked at first.
pub(crate) const COARSE: usize = 2;

/// Where a moment comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Origin {
    /// Number of the take, in the order in which takes were learned.
    pub take: u32,
    /// Frame of the take, at 50 Hz.
    pub frame: u32,
}

/// Moments of a performer: those rehearsed stay, of those learned since the oldest are forgotten when it is full.
///
/// All memory is taken at the start; the operating system gives it as it is used.
#[derive(Debug, Clone)]
pub struct Store {
    keys: Vec<i16>,
    followed: Vec<Followed>,
    origins: Vec<Origin>,
    sketches: Vec<Sketch>,
    /// How many of the first slots were rehearsed; behind them is a ring.
    rehearsed: usize,
    len: usize,
    /// Where the ring goes on once it is full.
    next: usize,
    forgotten: u64,
}

impl Store {
    /// Room for `capacity` moments.
    ///
    /// # Errors
    /// A capacity that is not within 1 to ten hours.
    pub fn new(capacity: usize) -> Result<Self, MemoryError> {
        if !(1..=10 * MOMENTS_AN_HOUR).contains(&capacity) {
            return Err(MemoryError::Option {
                option: "capacity",
                expected: "1 to 900000 moments",
                given: capacity.to_string(),
            });
        }
        Ok(Self {
            keys: vec![0; capacity * KEY_SIZE],
            followed: vec![[0; FOLLOWED]; capacity],
            origins: vec![Origin::default(); capacity],
            sketches: vec![[0; SKETCH]; capacity.div_ceil(COARSE)],
            rehearsed: 0,
            len: 0,
            next: 0,
            forgotten: 0,
        })
    }

    /// How many moments there is room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.followed.len()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many of them were rehearsed: slots `0..rehearsed()`.
    #[must_use]
    pub fn rehearsed(&self) -> usize {
        self.rehearsed
    }

    /// How many were forgotten to make room, since the memory was made or cleared.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Checks that so many moments more can be kept for good.
    ///
    /// # Errors
    /// No room for them.
    pub fn room(&self, moments: usize) -> Result<(), MemoryError> {
        if self.rehearsed + moments <= self.capacity() {
            return Ok(());
        }
        Err(MemoryError::Full {
            capacity: self.capacity(),
        })
    }

    /// Everything there is now is kept for good.
    pub(crate) fn keep(&mut self) {
        self.rehearsed = self.len;
    }

    /// Forgets what was learned since the rehearsals; `rehearsed` too, forgets those.
    pub fn clear(&mut self, rehearsed: bool) {
        if rehearsed {
            self.rehearsed = 0;
        }
        self.len = self.rehearsed;
        self.next = 0;
        self.forgotten = 0;
    }

    /// Remembers a moment; false where every slot was rehearsed.
    pub fn learn(&mut self, key: &Key, followed: &Followed, origin: Origin) -> bool {
        let slot = if self.len < self.capacity() {
            self.len += 1;
            self.len - 1
        } else if self.rehearsed < self.capacity() {
            let slot = self.rehearsed + self.next;
            self.next = (self.next + 1) % (self.capacity() - self.rehearsed);
            self.forgotten += 1;
            slot
        } else {
            return false;
        };
        self.keys[slot * KEY_SIZE..][..KEY_SIZE].copy_from_slice(key);
        self.followed[slot] = *followed;
        self.origins[slot] = origin;
        if slot.is_multiple_of(COARSE) {
            self.sketches[slot / COARSE] = sketch(key);
        }
        true
    }

    /// The key of a slot.
    #[must_use]
    pub fn key(&self, slot: usize) -> &Key {
        &self.keys.as_chunks().0[slot]
    }

    /// What followed the moment of a slot.
    #[must_use]
    pub fn followed(&self, slot: usize) -> &Followed {
        &self.followed[slot]
    }

    /// Where the moment of a slot comes from.
    #[must_use]
    pub fn origin(&self, slot: usize) -> Origin {
        self.origins[slot]
    }

    /// Slots in the order in which they were learned.
    pub fn in_order(&self) -> impl Iterator<Item = usize> {
        let ring = self.len - self.rehearsed;
        let turned = (0..ring).map(move |i| self.rehearsed + (self.next + i) % ring);
        (0..self.rehearsed).chain(turned)
    }

    /// The sketches of every [`COARSE`]th slot.
    pub(crate) fn sketches(&self) -> &[Sketch] {
        &self.sketches[..self.len.div_ceil(COARSE)]
    }

    /// Fills an empty memory with what was rehearsed.
    ///
    /// # Errors
    /// More moments than there is room for, arrays that do not fit each other, or numbers that no key has.
    pub fn restore(&mut self, keys: &[i16], followed: &[u16], origins: &[Origin]) -> Result<(), MemoryError> {
        let moments = origins.len();
        for (what, given, expected) in [
            ("keys", keys.len(), moments * KEY_SIZE),
            ("followed", followed.len(), moments * FOLLOWED),
        ] {
            if given != expected {
                return Err(MemoryError::Shape {
                    what,
                    expected: format!("{expected} numbers"),
                    given: given.to_string(),
                });
            }
        }
        check(keys)?;
        self.clear(true);
        self.room(moments)?;
        let rows = keys.as_chunks().0.iter().zip(followed.as_chunks().0);
        for ((key, followed), &origin) in rows.zip(origins) {
            self.learn(key, followed, origin);
        }
        self.keep();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn moment(number: u32) -> (Key, Followed, Origin) {
        let value = i16::try_from(number % 2000).unwrap();
        let origin = Origin {
            take: 0,
            frame: number,
        };
        ([value; KEY_SIZE], [number as u16; FOLLOWED], origin)
    }

    proptest! {
        #[test]
        fn the_rehearsed_stay_and_of_the_others_the_newest(
            capacity in 1_usize..40, rehearsed in 0_usize..40, played in 0_u32..120
        ) {
            let rehearsed = rehearsed.min(capacity);
            let mut store = Store::new(capacity).unwrap();
            for number in 0..rehearsed as u32 {
                let (key, followed, origin) = moment(number);
                prop_assert!(store.learn(&key, &followed, origin));
            }
            store.keep();
            for number in 1000..1000 + played {
                let (key, followed, origin) = moment(number);
                prop_assert_eq!(store.learn(&key, &followed, origin), rehearsed < capacity);
            }
            let kept = if rehearsed < capacity { (played as usize).min(capacity - rehearsed) } else { 0 };
            let newest = (1000 + played - kept as u32)..1000 + played;
            let expected: Vec<u32> = (0..rehearsed as u32).chain(newest).collect();
            let slots: Vec<usize> = store.in_order().collect();
            let found: Vec<u32> = slots.iter().map(|&slot| store.origin(slot).frame).collect();
            prop_assert_eq!(&found, &expected);
            for (slot, number) in slots.into_iter().zip(expected) {
                let (key, followed, _) = moment(number);
                prop_assert_eq!(store.key(slot), &key);
                prop_assert_eq!(store.followed(slot), &followed);
            }
            let learned = if rehearsed < capacity { u64::from(played) } else { 0 };
            prop_assert_eq!(store.forgotten(), learned - kept as u64);
        }
    }
}
