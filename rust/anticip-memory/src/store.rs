//! What is remembered: keys, what followed them, and which take they are of.

use std::collections::HashMap;

use crate::key::{self, BEFORE, Earlier, KEY_SIZE, Key, OWN, Own, Split, check};
use crate::sketch::{SKETCH, Sketch, sketch};
use crate::{HORIZONS, MemoryError, PARAMETER_COUNT};

/// Frames between two moments that are remembered.
pub const MOMENT_STEP: usize = 2;
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

/// How many numbers that is.
const ORIGIN: usize = 2;

/// Moments of one take in neighbouring slots, [`MOMENT_STEP`] frames from one to the next.
#[derive(Debug, Clone, Copy)]
struct Run {
    origin: Origin,
    slot: usize,
    len: usize,
}

/// Moments of a performer: those rehearsed stay, of those learned since the oldest are forgotten when it is full.
///
/// All memory is taken at the start, as zeros that the operating system gives as they are used. So it is vectors of plain
/// numbers: rows or structures of zeros would be written one by one.
///
/// Of a key only what is of its own moment is stored. What it repeats of earlier moments is read from theirs, unless they
/// are not there: at the start of a take, after a pause in learning, and where they have just been forgotten.
#[derive(Debug, Clone)]
pub struct Store {
    capacity: usize,
    /// Of the key an [`Own`] a slot, a [`Followed`], take and frame of its [`Origin`], for every [`COARSE`]th a [`Sketch`].
    own: Vec<i16>,
    followed: Vec<u16>,
    origins: Vec<u32>,
    sketches: Vec<i16>,
    /// Whether the rest of a slot's key is read from the slots before it; where it is not, it is here.
    repeats: Vec<bool>,
    apart: HashMap<usize, Earlier>,
    /// How many of the first slots were rehearsed; behind them is a ring.
    rehearsed: usize,
    /// What was rehearsed, take by take.
    runs: Vec<Run>,
    len: usize,
    /// Where the ring goes on once it is full.
    next: usize,
    forgotten: u64,
}

impl Run {
    fn goes_on(&self, origin: Origin) -> bool {
        let next = self.origin.frame as usize + self.len * MOMENT_STEP;
        origin.take == self.origin.take && origin.frame as usize == next
    }
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
            capacity,
            own: vec![0; capacity * OWN],
            followed: vec![0; capacity * FOLLOWED],
            origins: vec![0; capacity * ORIGIN],
            sketches: vec![0; capacity.div_ceil(COARSE) * SKETCH],
            repeats: vec![false; capacity],
            apart: HashMap::new(),
            rehearsed: 0,
            runs: Vec::new(),
            len: 0,
            next: 0,
            forgotten: 0,
        })
    }

    /// How many moments there is room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
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

    /// Checks that so many moments can be kept in all.
    pub(crate) fn room(&self, moments: usize) -> Result<(), MemoryError> {
        if moments <= self.capacity {
            return Ok(());
        }
        Err(MemoryError::Full {
            capacity: self.capacity,
        })
    }

    /// Everything there is now is kept for good.
    pub(crate) fn keep(&mut self) {
        for slot in self.rehearsed..self.len {
            let origin = self.origin(slot);
            match self.runs.last_mut() {
                Some(run) if run.goes_on(origin) => run.len += 1,
                _ => self.runs.push(Run { origin, slot, len: 1 }),
            }
        }
        self.rehearsed = self.len;
    }

    /// The teacher's parameters at a frame of a rehearsed take, 0..1; nothing where no moment tells: in the first .6 s
    /// of a take and after its end.
    pub(crate) fn parameters(&self, take: u32, frame: f64) -> Option<[f64; PARAMETER_COUNT]> {
        HORIZONS.into_iter().enumerate().find_map(|(h, ahead)| {
            let at = frame - ahead as f64;
            let (run, moment) = self
                .runs
                .iter()
                .filter(|run| run.origin.take == take)
                .find_map(|run| {
                    let moment = (at - f64::from(run.origin.frame)) / MOMENT_STEP as f64;
                    (0.0..=(run.len - 1) as f64)
                        .contains(&moment)
                        .then_some((run, moment))
                })?;
            let (whole, part) = (moment as usize, moment.fract());
            let row = |moment: usize| {
                let followed = self.followed(run.slot + moment.min(run.len - 1));
                followed.as_chunks::<PARAMETER_COUNT>().0[h]
                    .map(|value| f64::from(value) / f64::from(u16::MAX))
            };
            let (before, after) = (row(whole), row(whole + 1));
            Some(std::array::from_fn(|p| before[p] + part * (after[p] - before[p])))
        })
    }

    /// Forgets what was learned since the rehearsals; `rehearsed` too, forgets those.
    pub fn clear(&mut self, rehearsed: bool) {
        if rehearsed {
            self.rehearsed = 0;
            self.runs.clear();
        }
        self.len = self.rehearsed;
        self.apart.retain(|&slot, _| slot < self.rehearsed);
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
            self.forget(slot);
            slot
        } else {
            return false;
        };
        let Split { own, earlier } = Split::of(key);
        self.own[slot * OWN..][..OWN].copy_from_slice(&own);
        self.repeats[slot] = self.repeated(slot) == Some(earlier);
        if !self.repeats[slot] {
            self.apart.insert(slot, earlier);
        }
        self.followed[slot * FOLLOWED..][..FOLLOWED].copy_from_slice(followed);
        self.origins[slot * ORIGIN..][..ORIGIN].copy_from_slice(&[origin.take, origin.frame]);
        if slot.is_multiple_of(COARSE) {
            self.sketches[slot / COARSE * SKETCH..][..SKETCH].copy_from_slice(&sketch(key));
        }
        true
    }

    /// The moments that read the oldest one, whose slot this is, keep what they read.
    fn forget(&mut self, slot: usize) {
        self.apart.remove(&slot);
        let ring = self.capacity - self.rehearsed;
        for after in BEFORE.into_iter().filter(|after| *after < ring) {
            let reader = self.rehearsed + (slot - self.rehearsed + after) % ring;
            if std::mem::take(&mut self.repeats[reader])
                && let Some(earlier) = self.repeated(reader)
            {
                self.apart.insert(reader, earlier);
            }
        }
    }

    /// The slot that was learned so many before another, if it still is there.
    #[inline(always)]
    fn before(&self, slot: usize, ago: usize) -> Option<usize> {
        let start = if slot < self.rehearsed { 0 } else { self.rehearsed };
        if slot - start >= ago {
            return Some(slot - ago);
        }
        let turned = slot >= self.rehearsed && self.len == self.capacity && ago < self.capacity - start;
        turned.then(|| slot + self.capacity - start - ago)
    }

    #[inline(always)]
    fn own(&self, slot: usize) -> &Own {
        &self.own.as_chunks().0[slot]
    }

    /// What the slots before it have of a slot's key.
    #[inline(always)]
    fn repeated(&self, slot: usize) -> Option<Earlier> {
        let [first, second, third, fourth] = BEFORE.map(|ago| self.before(slot, ago));
        let rows = [first?, second?, third?, fourth?].map(|slot| self.own(slot));
        Some(key::earlier(rows))
    }

    #[inline(always)]
    fn earlier(&self, slot: usize) -> Earlier {
        let repeated = self.repeats[slot].then(|| self.repeated(slot)).flatten();
        repeated.unwrap_or_else(|| self.apart[&slot])
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

    /// How far the key of a slot is from another, squared, in units of one.
    #[inline(always)]
    pub(crate) fn distance(&self, key: &Split, slot: usize) -> f32 {
        key::distance(key, self.own(slot), &self.earlier(slot))
    }

    /// What followed the moment of a slot.
    #[must_use]
    pub fn followed(&self, slot: usize) -> &Followed {
        &self.followed.as_chunks().0[slot]
    }

    /// Where the moment of a slot comes from.
    #[must_use]
    pub fn origin(&self, slot: usize) -> Origin {
        let [take, frame] = self.origins.as_chunks::<ORIGIN>().0[slot];
        Origin { take, frame }
    }

    /// Slots in the order in which they were learned.
    pub fn in_order(&self) -> impl Iterator<Item = usize> {
        let ring = self.len - self.rehearsed;
        let turned = (0..ring).map(move |i| self.rehearsed + (self.next + i) % ring);
        (0..self.rehearsed).chain(turned)
    }

    /// The sketches of every [`COARSE`]th slot.
    pub(crate) fn sketches(&self) -> &[Sketch] {
        &self.sketches.as_chunks().0[..self.len.div_ceil(COARSE)]
    }

    /// Fills a memory with what was rehearsed, in place of all that it has.
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
        self.room(moments)?;
        self.clear(true);
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

    #[test]
    fn what_is_restored_is_there_and_what_does_not_fit_is_named() {
        let rows: Vec<_> = (0..5).map(moment).collect();
        let keys: Vec<i16> = rows.iter().flat_map(|(key, ..)| *key).collect();
        let followed: Vec<u16> = rows.iter().flat_map(|(_, followed, _)| *followed).collect();
        let origins: Vec<Origin> = rows.iter().map(|(.., origin)| *origin).collect();
        let mut store = Store::new(100).unwrap();
        store.restore(&keys, &followed, &origins).unwrap();
        assert_eq!(store.len(), 5);
        for (keys, followed, wanted) in [
            (&keys[1..], &followed[..], "keys"),
            (&keys, &followed[1..], "followed"),
        ] {
            match store.restore(keys, followed, &origins) {
                Err(MemoryError::Shape { what, .. }) => assert_eq!(what, wanted),
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
            store.keep();
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

    fn moment(number: u32) -> (Key, Followed, Origin) {
        let value = i16::try_from(number % 2000).unwrap();
        let origin = Origin {
            take: 0,
            frame: number,
        };
        ([value; KEY_SIZE], [number as u16; FOLLOWED], origin)
    }

    /// A stream in which what a key repeats of earlier ones is that, as it is of takes.
    fn streamed(frame: u32) -> Key {
        std::array::from_fn(|i| {
            let (block, at) = (i / PARAMETER_COUNT, i % PARAMETER_COUNT);
            let (ago, what) = match block {
                0..5 => ([0, 3, 8, 15, 25][block], at),
                5..7 => (0, i),
                _ => (if i < 119 { 0 } else { 6 }, 100 + (i - 56) % 63),
            };
            ((frame + 100 - ago) * (what as u32 + 7) % 1999) as i16
        })
    }

    proptest! {
        /// Whatever was paused, forgotten or cleared meanwhile, and however little of it is stored.
        #[test]
        fn every_key_is_whole(
            capacity in 1_usize..60, rehearsed in 0_usize..40,
            acts in prop::collection::vec((0_u32..40, 0_u32..3, any::<bool>()), 1..12)
        ) {
            let mut store = Store::new(capacity).unwrap();
            let mut frame = 0;
            let mut learn = |store: &mut Store, count: u32| {
                for _ in 0..count {
                    frame += 2;
                    store.learn(&streamed(frame), &[0; FOLLOWED], Origin { take: 0, frame });
                }
                frame += 2;
            };
            learn(&mut store, rehearsed.min(capacity) as u32);
            store.keep();
            for (count, pauses, clear) in acts {
                if clear && pauses == 0 {
                    store.clear(false);
                }
                (0..=pauses).for_each(|_| learn(&mut store, count));
                for slot in store.in_order() {
                    prop_assert_eq!(store.key(slot), streamed(store.origin(slot).frame));
                }
            }
            // What is read from other slots is not kept as well.
            let whole = store.repeats[..store.len()].iter().filter(|repeats| !**repeats).count();
            prop_assert_eq!(whole, store.apart.len());
        }

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
                prop_assert_eq!(store.key(slot), key);
                prop_assert_eq!(store.followed(slot), &followed);
            }
            let learned = if rehearsed < capacity { u64::from(played) } else { 0 };
            prop_assert_eq!(store.forgotten(), learned - kept as u64);
        }
    }
}
