//! Search for the nearest earlier moments, with a bounded amount of work per frame.
//!
//! A moment that was near one frame ago is still near, or the one after it is: the best of the last frame and
//! their neighbours in time are compared again. In addition a sweep compares the sketches of every second
//! moment, a fixed number per frame; moments that their sketch does not rule out are compared in full. A
//! memory of a few minutes is swept completely in every frame.

use pulp::Arch;

use crate::key::{Key, Split, UNIT};
use crate::sketch::{self, sketch};
use crate::store::{COARSE_STEP, Store};

/// Number of moments returned.
pub(crate) const NEAREST: usize = 12;
/// Number of moments compared again in the next frame.
const POOL_SIZE: usize = 48;
/// Sketches compared per frame.
const SKETCHES_PER_FRAME: usize = 6144;
/// Maximum number of keys compared per frame after the sweep.
const MAX_KEYS_PER_FRAME: usize = 128;

/// A moment and the squared distance of its key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Near {
    pub(crate) slot: usize,
    pub(crate) distance: f32,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Search {
    /// The best moments of the last frame, nearest first.
    best: Vec<Near>,
    /// Index of the sketch at which the sweep continues.
    sweep_position: usize,
    slots: Vec<usize>,
    hits: Vec<(i32, usize)>,
}

impl Search {
    /// Forgets the moments found so far and restarts the sweep.
    pub(crate) fn reset(&mut self) {
        self.best.clear();
        self.sweep_position = 0;
    }

    /// The moments nearest to `key`, nearest first, at most [`NEAREST`].
    #[inline(never)] // One copy of the code, so that prewarming reaches it.
    pub(crate) fn find(&mut self, store: &Store, key: &Key) -> &[Near] {
        Arch::new().dispatch(|| self.update_best(store, key));
        &self.best[..self.best.len().min(NEAREST)]
    }

    /// Leaves the nearest moments in `best`.
    #[inline(always)]
    fn update_best(&mut self, store: &Store, key: &Key) {
        let split = Split::of(key);
        self.recompare(store, &split);
        self.sweep(store, key);
        for (sketch_distance, slot) in self.hits.drain(..) {
            if sketch_distance > max_sketch_distance(&self.best) {
                break;
            }
            let distance = store.distance(&split, slot);
            let at = self.best.partition_point(|near| near.is_before(distance, slot));
            if self.best.get(at).is_none_or(|near| near.slot != slot) {
                self.best.insert(at, Near { slot, distance });
                self.best.truncate(POOL_SIZE);
            }
        }
    }

    /// Compares the best of the last frame and their neighbours in time with `key`.
    #[inline(always)]
    fn recompare(&mut self, store: &Store, key: &Split) {
        self.slots.clear();
        for near in &self.best {
            self.slots
                .extend(near.slot.saturating_sub(1)..(near.slot + 2).min(store.len()));
        }
        self.slots.sort_unstable();
        self.slots.dedup();
        self.best.clear();
        self.best.extend(self.slots.iter().map(|&slot| Near {
            slot,
            distance: store.distance(key, slot),
        }));
        self.best
            .sort_unstable_by(|a, b| a.distance.total_cmp(&b.distance).then(a.slot.cmp(&b.slot)));
        self.best.truncate(POOL_SIZE);
    }

    /// Leaves in `hits` the moments of the next sketches that are not ruled out, nearest first.
    #[inline(always)]
    fn sweep(&mut self, store: &Store, key: &Key) {
        let sketches = store.sketches();
        let (own, max_distance) = (sketch(key), max_sketch_distance(&self.best));
        let mut remaining = SKETCHES_PER_FRAME.min(sketches.len());
        self.hits.clear();
        while remaining > 0 {
            if self.sweep_position >= sketches.len() {
                self.sweep_position = 0;
            }
            let stretch =
                &sketches[self.sweep_position..(self.sweep_position + remaining).min(sketches.len())];
            for (i, other) in stretch.iter().enumerate() {
                let distance = sketch::distance(&own, other);
                if distance < max_distance {
                    self.hits
                        .push((distance, (self.sweep_position + i) * COARSE_STEP));
                }
            }
            self.sweep_position += stretch.len();
            remaining -= stretch.len();
        }
        if self.hits.len() > MAX_KEYS_PER_FRAME {
            self.hits.select_nth_unstable(MAX_KEYS_PER_FRAME);
            self.hits.truncate(MAX_KEYS_PER_FRAME);
        }
        self.hits.sort_unstable();
    }
}

impl Near {
    /// Whether this moment sorts before the other; equal distances sort by slot.
    fn is_before(&self, distance: f32, slot: usize) -> bool {
        (self.distance, self.slot) < (distance, slot)
    }
}

/// Maximum squared distance of sketches, in units of a key squared, at which a moment can be among the
/// nearest.
fn max_sketch_distance(best: &[Near]) -> i32 {
    let farthest = best
        .get(NEAREST - 1)
        .map_or(f64::INFINITY, |near| f64::from(near.distance));
    // Rounding can make sketches slightly farther apart than their keys.
    (farthest * UNIT * UNIT * 1.01 + 1000.0) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KEY_SIZE;
    use crate::store::{FOLLOWED, Origin};

    /// Key of a swinging body: consecutive blocks of parameters, and both postures, are strongly correlated.
    fn walk(seed: f64, moment: usize) -> Key {
        std::array::from_fn(|i| {
            let (channel, ago, size) = if i < 56 {
                (i % 8, (i / 8) as f64 * 0.06, 600.0)
            } else {
                (8 + (i - 56) % 21, 0.12 * ((i - 56) / 63) as f64, 150.0)
            };
            let (t, speed) = (moment as f64 * 0.04 - ago, 0.3 + 0.17 * (channel % 7) as f64);
            let phase = seed * (channel * channel % 91) as f64;
            (size * ((speed * t + phase).sin() + 0.5 * (0.37 * speed * t + 2.0 * phase).cos())) as i16
        })
    }

    fn filled(moments: usize) -> Store {
        let mut store = Store::new(moments).unwrap();
        for moment in 0..moments {
            assert!(store.learn(&walk(1.0, moment), &[0; FOLLOWED], Origin::default()));
        }
        store
    }

    fn nearest_by_brute_force(store: &Store, key: &Key) -> Vec<usize> {
        let mut all: Vec<_> = (0..store.len())
            .map(|slot| (store.distance(&Split::of(key), slot), slot))
            .collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        all.into_iter().take(NEAREST).map(|(_, slot)| slot).collect()
    }

    fn recall(store: &Store, key: impl Fn(usize) -> Key) -> f64 {
        let mut search = Search::default();
        let (mut hits, mut expected) = (0, 0);
        for frame in 0..400 {
            let key = key(frame);
            let found: Vec<usize> = search.find(store, &key).iter().map(|found| found.slot).collect();
            if frame >= 20 {
                let exact = nearest_by_brute_force(store, &key);
                hits += exact.iter().filter(|slot| found.contains(slot)).count();
                expected += exact.len();
            }
        }
        hits as f64 / expected as f64
    }

    #[test]
    fn what_was_shown_is_found_again() {
        let store = filled(20_000);
        let same_movement = recall(&store, |frame| walk(1.0, 3000 + frame / 2));
        let other_movement = recall(&store, |frame| walk(1.2, frame / 2));
        assert!(same_movement > 0.98, "{same_movement}");
        assert!(other_movement > 0.9, "{other_movement}");
    }

    #[test]
    fn few_moments_are_all_looked_at() {
        let store = filled(NEAREST);
        let mut search = Search::default();
        let key: Key = [0; KEY_SIZE];
        search.find(&store, &key);
        assert_eq!(search.find(&store, &key).len(), NEAREST);
        search.reset();
        assert!(search.find(&Store::new(5).unwrap(), &key).is_empty());
    }
}
