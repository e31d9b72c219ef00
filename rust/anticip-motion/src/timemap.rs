//! Source time to local time: the lower envelope of (arrival - source) over the last ten seconds.

use std::collections::VecDeque;

/// How long an offset counts, nanoseconds of local time.
const SPAN_NS: i64 = 10_000_000_000;
/// More candidates than a source of 200 Hz can leave behind within the span.
const CAPACITY: usize = 4096;

/// The smallest (arrival - source) of the last ten seconds: the path's least delay, which jitter only adds to.
#[derive(Debug, Clone)]
pub(crate) struct TimeMap {
    /// Candidates for the minimum: arrival and offset, offsets rising.
    window: VecDeque<(i64, i64)>,
}

impl TimeMap {
    pub(crate) fn new() -> Self {
        Self {
            window: VecDeque::with_capacity(CAPACITY),
        }
    }

    pub(crate) fn reset(&mut self) {
        self.window.clear();
    }

    /// Takes one packet's times into account.
    pub(crate) fn push(&mut self, source_ns: i64, arrival_ns: i64) {
        let offset = arrival_ns.saturating_sub(source_ns);
        while self.window.back().is_some_and(|&(_, o)| o >= offset) {
            self.window.pop_back();
        }
        let old = arrival_ns.saturating_sub(SPAN_NS);
        while self.window.len() == CAPACITY || self.window.front().is_some_and(|&(t, _)| t < old) {
            self.window.pop_front();
        }
        self.window.push_back((arrival_ns, offset));
    }

    /// The local time of a source time.
    pub(crate) fn local(&self, source_ns: i64) -> i64 {
        let offset = self.window.front().map_or(0, |&(_, o)| o);
        source_ns.saturating_add(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn the_least_delay_wins_and_is_forgotten_after_ten_seconds() {
        let mut map = TimeMap::new();
        assert_eq!(map.local(5), 5);
        // 3 ms of delay, once 1 ms.
        for i in 0..100 {
            let source = i * 20 * MS;
            map.push(source, 1000 * MS + source + if i == 10 { MS } else { 3 * MS });
        }
        assert_eq!(map.local(0), 1001 * MS);
        for i in 100..1000 {
            let source = i * 20 * MS;
            map.push(source, 1000 * MS + source + 3 * MS);
        }
        assert_eq!(map.local(0), 1003 * MS);
        map.reset();
        assert_eq!(map.local(7), 7);
    }

    #[test]
    fn nothing_overflows_and_memory_is_bounded() {
        let mut map = TimeMap::new();
        for i in 0..10_000 {
            // Ever larger offsets at one instant: the worst the window can be asked to keep.
            map.push(-i, 0);
        }
        assert!(map.window.len() <= CAPACITY);
        map.push(i64::MIN, i64::MAX);
        map.push(i64::MAX, i64::MIN);
        let _ = map.local(i64::MAX);
    }
}
