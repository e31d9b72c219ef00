//! Storage of moments: their keys, what followed them, and the takes they belong to.

use std::collections::HashMap;

use crate::key::{self, EARLIER_MOMENTS, Earlier, KEY_SIZE, Key, OWN_SIZE, Own, Split, check};
use crate::sketch::{SKETCH_SIZE, Sketch, sketch};
use crate::{HORIZONS, MemoryError, PARAMETER_COUNT};

/// Frames from one stored moment to the next.
pub const MOMENT_STEP: usize = 2;
/// Number of values stored of what followed a moment: the parameters at each horizon.
pub const FOLLOWED: usize = HORIZONS.len() * PARAMETER_COUNT;

/// The teacher's parameters at each horizon after a moment, in 1/65535.
pub type Followed = [u16; FOLLOWED];

/// Number of moments in an hour of memory.
pub const MOMENTS_PER_HOUR: usize = 90_000;

/// Step between the moments that have a sketch.
pub(crate) const COARSE_STEP: usize = 2;

/// The take and frame of a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Origin {
    /// Number of the take, in the order in which the takes were learned.
    pub take: u32,
    /// Frame within the take, at 50 Hz.
    pub frame: u32,
}

/// Number of values in an [`Origin`].
const ORIGIN_SIZE: usize = 2;

/// Consecutive slots with moments of one take, [`MOMENT_STEP`] frames apart.
#[derive(Debug, Clone, Copy)]
struct Run {
    origin: Origin,
    slot: usize,
    len: usize,
}

/// Moments of a performer. Rehearsed moments stay; of the others the oldest are overwritten when the store is
/// full.
///
/// All memory is allocated at the start, as zeroed pages that the operating system provides on first use.
/// Hence the vectors of plain numbers: vectors of arrays or structs would be zeroed element by element.
///
/// Of a key only the values of its own moment are stored. The values that it repeats are read from earlier
/// moments, unless these do not exist: at the start of a take, after a pause in learning, and where they were
/// just overwritten.
#[derive(Debug, Clone)]
pub struct Store {
    capacity: usize,
    /// Per slot: the key's [`Own`].
    own: Vec<i16>,
    /// Per slot: a [`Followed`].
    followed: Vec<u16>,
    /// Per slot: take and frame of its [`Origin`].
    origins: Vec<u32>,
    /// Per [`COARSE_STEP`] slots: a [`Sketch`].
    sketches: Vec<i16>,
    /// Per slot: whether its [`Earlier`] is read from the slots before it; otherwise it is in `separate`.
    reads_earlier: Vec<bool>,
    separate: HashMap<usize, Earlier>,
    /// Number of rehearsed moments, which fill the first slots; the slots after them form a ring.
    rehearsed: usize,
    /// The rehearsed moments as runs, take by take.
    runs: Vec<Run>,
    len: usize,
    /// Next position of the ring to be overwritten, once it is full.
    next: usize,
    forgotten: u64,
}

impl Run {
    fn continues_with(&self, origin: Origin) -> bool {
        let next = self.origin.frame as usize + self.len * MOMENT_STEP;
        origin.take == self.origin.take && origin.frame as usize == next
    }
}

impl Store {
    /// A store for `capacity` moments.
    ///
    /// # Errors
    /// If `capacity` is not within 1 to 900000 (ten hours).
    pub fn new(capacity: usize) -> Result<Self, MemoryError> {
        if !(1..=10 * MOMENTS_PER_HOUR).contains(&capacity) {
            return Err(MemoryError::Option {
                option: "capacity",
                expected: "1 to 900000 moments",
                given: capacity.to_string(),
            });
        }
        Ok(Self {
            capacity,
            own: vec![0; capacity * OWN_SIZE],
            followed: vec![0; capacity * FOLLOWED],
            origins: vec![0; capacity * ORIGIN_SIZE],
            sketches: vec![0; capacity.div_ceil(COARSE_STEP) * SKETCH_SIZE],
            reads_earlier: vec![false; capacity],
            separate: HashMap::new(),
            rehearsed: 0,
            runs: Vec::new(),
            len: 0,
            next: 0,
            forgotten: 0,
        })
    }

    /// Maximum number of moments.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Number of stored moments.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no moments.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of rehearsed moments: slots `0..rehearsed()`.
    #[must_use]
    pub fn rehearsed(&self) -> usize {
        self.rehearsed
    }

    /// Number of moments overwritten since the store was created or cleared.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Returns an error if there is no room for this total number of moments.
    pub(crate) fn check_room(&self, moments: usize) -> Result<(), MemoryError> {
        if moments <= self.capacity {
            return Ok(());
        }
        Err(MemoryError::Full {
            capacity: self.capacity,
        })
    }

    /// Marks all current moments as rehearsed, so that they are never overwritten.
    pub(crate) fn keep_all(&mut self) {
        for slot in self.rehearsed..self.len {
            let origin = self.origin(slot);
            match self.runs.last_mut() {
                Some(run) if run.continues_with(origin) => run.len += 1,
                _ => self.runs.push(Run { origin, slot, len: 1 }),
            }
        }
        self.rehearsed = self.len;
    }

    /// The teacher's parameters at a frame of a rehearsed take, interpolated, 0..1; `None` where no moment
    /// covers it: in the first 0.6 s of a take and after its end.
    pub(crate) fn parameters(&self, take: u32, frame: f64) -> Option<[f64; PARAMETER_COUNT]> {
        HORIZONS.into_iter().enumerate().find_map(|(h, ahead)| {
            let at = frame - ahead as f64;
            let (run, position) = self
                .runs
                .iter()
                .filter(|run| run.origin.take == take)
                .find_map(|run| {
                    let position = (at - f64::from(run.origin.frame)) / MOMENT_STEP as f64;
                    (0.0..=(run.len - 1) as f64)
                        .contains(&position)
                        .then_some((run, position))
                })?;
            let (whole, fraction) = (position as usize, position.fract());
            let row = |i: usize| {
                let followed = self.followed(run.slot + i.min(run.len - 1));
                followed.as_chunks::<PARAMETER_COUNT>().0[h]
                    .map(|value| f64::from(value) / f64::from(u16::MAX))
            };
            let (before, after) = (row(whole), row(whole + 1));
            Some(std::array::from_fn(|p| {
                before[p] + fraction * (after[p] - before[p])
            }))
        })
    }

    /// Forgets the moments learned since the rehearsals, and with `rehearsed` those too.
    pub fn clear(&mut self, rehearsed: bool) {
        if rehearsed {
            self.rehearsed = 0;
            self.runs.clear();
        }
        self.len = self.rehearsed;
        self.separate.retain(|&slot, _| slot < self.rehearsed);
        self.next = 0;
        self.forgotten = 0;
    }

    /// Stores a moment; returns false if every slot is rehearsed.
    pub fn learn(&mut self, key: &Key, followed: &Followed, origin: Origin) -> bool {
        let slot = if self.len < self.capacity() {
            self.len += 1;
            self.len - 1
        } else if self.rehearsed < self.capacity() {
            let slot = self.rehearsed + self.next;
            self.next = (self.next + 1) % (self.capacity() - self.rehearsed);
            self.forgotten += 1;
            self.release(slot);
            slot
        } else {
            return false;
        };
        let Split { own, earlier } = Split::of(key);
        self.own[slot * OWN_SIZE..][..OWN_SIZE].copy_from_slice(&own);
        self.reads_earlier[slot] = self.earlier_from_slots(slot) == Some(earlier);
        if !self.reads_earlier[slot] {
            self.separate.insert(slot, earlier);
        }
        self.followed[slot * FOLLOWED..][..FOLLOWED].copy_from_slice(followed);
        self.origins[slot * ORIGIN_SIZE..][..ORIGIN_SIZE].copy_from_slice(&[origin.take, origin.frame]);
        if slot.is_multiple_of(COARSE_STEP) {
            self.sketches[slot / COARSE_STEP * SKETCH_SIZE..][..SKETCH_SIZE].copy_from_slice(&sketch(key));
        }
        true
    }

    /// Prepares a slot for overwriting: slots that read from it keep a copy of what they read.
    fn release(&mut self, slot: usize) {
        self.separate.remove(&slot);
        let ring = self.capacity - self.rehearsed;
        for offset in EARLIER_MOMENTS.into_iter().filter(|offset| *offset < ring) {
            let reader = self.rehearsed + (slot - self.rehearsed + offset) % ring;
            if std::mem::take(&mut self.reads_earlier[reader])
                && let Some(earlier) = self.earlier_from_slots(reader)
            {
                self.separate.insert(reader, earlier);
            }
        }
    }

    /// The slot learned `ago` moments before `slot`, if it still exists.
    #[inline(always)]
    fn slot_before(&self, slot: usize, ago: usize) -> Option<usize> {
        let start = if slot < self.rehearsed { 0 } else { self.rehearsed };
        if slot - start >= ago {
            return Some(slot - ago);
        }
        let has_wrapped = slot >= self.rehearsed && self.len == self.capacity && ago < self.capacity - start;
        has_wrapped.then(|| slot + self.capacity - start - ago)
    }

    #[inline(always)]
    fn own(&self, slot: usize) -> &Own {
        &self.own.as_chunks().0[slot]
    }

    /// The [`Earlier`] of a slot as its predecessors have it, if they all exist.
    #[inline(always)]
    fn earlier_from_slots(&self, slot: usize) -> Option<Earlier> {
        let [first, second, third, fourth] = EARLIER_MOMENTS.map(|ago| self.slot_before(slot, ago));
        let rows = [first?, second?, third?, fourth?].map(|slot| self.own(slot));
        Some(key::earlier(rows))
    }

    #[inline(always)]
    fn earlier(&self, slot: usize) -> Earlier {
        let earlier_from_slots = self.reads_earlier[slot]
            .then(|| self.earlier_from_slots(slot))
            .flatten();
        earlier_from_slots.unwrap_or_else(|| self.separate[&slot])
    }

    /// The key of a slot.
    #[must_use]
    pub fn key(&self, slot: usize) -> Key {
        Split {
            own: *self.own(slot),
            earlier: self.earlier(slot),
        }
        .key()
    }

    /// The squared distance of a slot's key from `key`, in squared metres.
    #[inline(always)]
    pub(crate) fn distance(&self, key: &Split, slot: usize) -> f32 {
        key::distance(key, self.own(slot), &self.earlier(slot))
    }

    /// The parameters that followed the moment of a slot.
    #[must_use]
    pub fn followed(&self, slot: usize) -> &Followed {
        &self.followed.as_chunks().0[slot]
    }

    /// Take and frame of the moment of a slot.
    #[must_use]
    pub fn origin(&self, slot: usize) -> Origin {
        let [take, frame] = self.origins.as_chunks::<ORIGIN_SIZE>().0[slot];
        Origin { take, frame }
    }

    /// The slots in the order in which they were learned.
    pub fn in_order(&self) -> impl Iterator<Item = usize> {
        let ring = self.len - self.rehearsed;
        let ring_slots = (0..ring).map(move |i| self.rehearsed + (self.next + i) % ring);
        (0..self.rehearsed).chain(ring_slots)
    }

    /// The sketches of every [`COARSE_STEP`]th slot.
    pub(crate) fn sketches(&self) -> &[Sketch] {
        &self.sketches.as_chunks().0[..self.len.div_ceil(COARSE_STEP)]
    }

    /// Replaces all moments by rehearsed ones.
    ///
    /// # Errors
    /// If there are more moments than room, the array lengths do not match, or a value is out of range for a
    /// key.
    pub fn restore(&mut self, keys: &[i16], followed: &[u16], origins: &[Origin]) -> Result<(), MemoryError> {
        let moments = origins.len();
        for (what, actual, expected) in [
            ("keys", keys.len(), moments * KEY_SIZE),
            ("followed", followed.len(), moments * FOLLOWED),
        ] {
            if actual != expected {
                return Err(MemoryError::Shape {
                    what,
                    expected: format!("{expected} numbers"),
                    given: actual.to_string(),
                });
            }
        }
        check(keys)?;
        self.check_room(moments)?;
        self.clear(true);
        let rows = keys.as_chunks().0.iter().zip(followed.as_chunks().0);
        for ((key, followed), &origin) in rows.zip(origins) {
            self.learn(key, followed, origin);
        }
        self.keep_all();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_restored_is_there_and_what_does_not_fit_is_named() {
        let rows: Vec<_> = (0..5).map(test_moment).collect();
        let keys: Vec<i16> = rows.iter().flat_map(|(key, ..)| *key).collect();
        let followed: Vec<u16> = rows.iter().flat_map(|(_, followed, _)| *followed).collect();
        let origins: Vec<Origin> = rows.iter().map(|(.., origin)| *origin).collect();
        let mut store = Store::new(100).unwrap();
        store.restore(&keys, &followed, &origins).unwrap();
        assert_eq!(store.len(), 5);
        for (keys, followed, expected) in [
            (&keys[1..], &followed[..], "keys"),
            (&keys, &followed[1..], "followed"),
        ] {
            match store.restore(keys, followed, &origins) {
                Err(MemoryError::Shape { what, .. }) => assert_eq!(what, expected),
                other => panic!("{other:?}"),
            }
            assert_eq!(store.len(), 5);
        }
    }

    #[test]
    fn a_rehearsed_take_says_what_held_at_any_of_its_frames() {
        let mut store = Store::new(100).unwrap();
        let value = |frame: usize| (frame * 100) as u16;
        for take in 0..2 {
            for frame in (25..65).step_by(MOMENT_STEP) {
                let mut followed = [0; FOLLOWED];
                for (row, ahead) in followed.as_chunks_mut().0.iter_mut().zip(HORIZONS) {
                    *row = [value(frame + ahead) + 1000 * take as u16; PARAMETER_COUNT];
                }
                let frame = frame as u32;
                assert!(store.learn(&[0; KEY_SIZE], &followed, Origin { take, frame }));
            }
            store.keep_all();
        }
        let at = |take, frame| store.parameters(take, frame).map(|row| row[3] * 65535.0);
        assert_eq!(at(0, 29.0), None);
        for frame in [30.0, 41.0, 41.5, 68.0, 70.0, 83.0] {
            assert!((at(0, frame).unwrap() - 100.0 * frame).abs() < 1e-6, "{frame}");
            assert!(
                (at(1, frame).unwrap() - 100.0 * frame - 1000.0).abs() < 1e-6,
                "{frame}"
            );
        }
        assert_eq!(at(0, 84.0), None);
        assert_eq!(at(2, 41.0), None);
        store.clear(true);
        assert_eq!(store.parameters(0, 41.0), None);
    }

    fn test_moment(number: u32) -> (Key, Followed, Origin) {
        let value = i16::try_from(number % 2000).unwrap();
        let origin = Origin {
            take: 0,
            frame: number,
        };
        ([value; KEY_SIZE], [number as u16; FOLLOWED], origin)
    }

    /// Key of a stream of frames whose repeated values equal those of earlier keys, as in real takes.
    fn stream_key(frame: u32) -> Key {
        std::array::from_fn(|i| {
            let (block, at) = (i / PARAMETER_COUNT, i % PARAMETER_COUNT);
            let (ago, value_index) = match block {
                0..5 => ([0, 3, 8, 15, 25][block], at),
                5..7 => (0, i),
                _ => (if i < 119 { 0 } else { 6 }, 100 + (i - 56) % 63),
            };
            ((frame + 100 - ago) * (value_index as u32 + 7) % 1999) as i16
        })
    }

    proptest! {
        /// Keys are complete whatever was paused, overwritten or cleared before, however little of them is
        /// stored.
        #[test]
        fn every_key_is_whole(
            capacity in 1_usize..60, rehearsed in 0_usize..40,
            steps in prop::collection::vec((0_u32..40, 0_u32..3, any::<bool>()), 1..12)
        ) {
            let mut store = Store::new(capacity).unwrap();
            let mut frame = 0;
            let mut learn = |store: &mut Store, count: u32| {
                for _ in 0..count {
                    frame += 2;
                    store.learn(&stream_key(frame), &[0; FOLLOWED], Origin { take: 0, frame });
                }
                frame += 2;
            };
            learn(&mut store, rehearsed.min(capacity) as u32);
            store.keep_all();
            for (count, pauses, clear) in steps {
                if clear && pauses == 0 {
                    store.clear(false);
                }
                (0..=pauses).for_each(|_| learn(&mut store, count));
                for slot in store.in_order() {
                    prop_assert_eq!(store.key(slot), stream_key(store.origin(slot).frame));
                }
            }
            // Values that are read from other slots are not stored twice.
            let stored = store.reads_earlier[..store.len()].iter().filter(|reads_earlier| !**reads_earlier).count();
            prop_assert_eq!(stored, store.separate.len());
        }

        #[test]
        fn the_rehearsed_stay_and_of_the_others_the_newest(
            capacity in 1_usize..40, rehearsed in 0_usize..40, played in 0_u32..120
        ) {
            let rehearsed = rehearsed.min(capacity);
            let mut store = Store::new(capacity).unwrap();
            for number in 0..rehearsed as u32 {
                let (key, followed, origin) = test_moment(number);
                prop_assert!(store.learn(&key, &followed, origin));
            }
            store.keep_all();
            for number in 1000..1000 + played {
                let (key, followed, origin) = test_moment(number);
                prop_assert_eq!(store.learn(&key, &followed, origin), rehearsed < capacity);
            }
            let kept = if rehearsed < capacity { (played as usize).min(capacity - rehearsed) } else { 0 };
            let newest = (1000 + played - kept as u32)..1000 + played;
            let expected: Vec<u32> = (0..rehearsed as u32).chain(newest).collect();
            let slots: Vec<usize> = store.in_order().collect();
            let found: Vec<u32> = slots.iter().map(|&slot| store.origin(slot).frame).collect();
            prop_assert_eq!(&found, &expected);
            for (slot, number) in slots.into_iter().zip(expected) {
                let (key, followed, _) = test_moment(number);
                prop_assert_eq!(store.key(slot), key);
                prop_assert_eq!(store.followed(slot), &followed);
            }
            let learned = if rehearsed < capacity { u64::from(played) } else { 0 };
            prop_assert_eq!(store.forgotten(), learned - kept as u64);
        }
    }
}
