//! Outputs do not depend on when the memory learns.

use anticip_memory::{
    Memory, MixedForecast, ModelRows, Origin, Rotations, TEACHER_REACH, TEACHER_START, Teacher,
};
use proptest::prelude::*;

/// A pose whose joints swing, each at its own pace.
fn pose(frame: usize) -> Rotations {
    let t = frame as f64 / 50.0;
    std::array::from_fn(|joint| {
        let pace = 1.7 + 0.37 * (joint % 5) as f64;
        let (sin, cos) = (0.3 * (pace * t).sin() + 0.1 * (joint as f64 + 3.1 * t).sin()).sin_cos();
        [cos, 0.6 * sin, 0.0, 0.8 * sin]
    })
}

fn model_rows(frame: usize) -> ModelRows {
    std::array::from_fn(|p| std::array::from_fn(|h| (0.1 * (frame + 3 * p + h) as f32).sin().abs()))
}

#[derive(Debug, Clone)]
enum Step {
    /// A number of frames, with or without a model.
    Play(usize, bool),
    Imagine(usize),
    Learning(bool),
    Reset,
    Clear,
    Rehearse,
    Count,
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1_usize..60, any::<bool>()).prop_map(|(frames, model)| Step::Play(frames, model)),
        2 => (0_usize..99).prop_map(Step::Imagine),
        2 => any::<bool>().prop_map(Step::Learning),
        1 => Just(Step::Reset),
        1 => Just(Step::Clear),
        1 => Just(Step::Rehearse),
        1 => Just(Step::Count),
    ]
}

/// All outputs of the steps, and the stored moments at the end. `learns` decides after which calls to learn.
fn outputs(
    steps: &[Step],
    mut learns: impl FnMut() -> bool,
) -> (Vec<MixedForecast>, Vec<usize>, Vec<Origin>) {
    let mut memory = Memory::new(150).expect("a capacity");
    let (mut outputs, mut counts) = (Vec::new(), Vec::new());
    let mut frame = 0;
    for step in steps {
        match *step {
            Step::Play(frames, model) => {
                for _ in 0..frames {
                    let rows = model_rows(frame);
                    outputs.push(memory.push(&pose(frame), model.then_some(&rows), None));
                    frame += 1;
                    if learns() {
                        memory.learn();
                    }
                }
            }
            Step::Imagine(what) => outputs.push(memory.imagine(Some(&model_rows(what)))),
            Step::Learning(learning) => memory.set_learning(learning),
            Step::Reset => memory.reset(),
            Step::Clear => memory.clear(false),
            Step::Rehearse => {
                let take: Vec<Rotations> = (0..80).map(pose).collect();
                counts.push(usize::from(memory.rehearse("take", &take).is_ok()));
            }
            Step::Count => counts.push(memory.store().len()),
        }
        if learns() {
            memory.learn();
        }
    }
    let store = memory.store();
    let origins = store.in_order().map(|slot| store.origin(slot)).collect();
    (outputs, counts, origins)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_said_does_not_depend_on_when_it_learns(
        more in prop::collection::vec(steps(), 1..24), choices in prop::collection::vec(any::<bool>(), 1..50)
    ) {
        let mut steps = vec![Step::Play(250, true)];
        steps.extend(more);
        let without = outputs(&steps, || false);
        prop_assert_eq!(&outputs(&steps, || true), &without);
        let mut turns = choices.iter().cycle();
        prop_assert_eq!(&outputs(&steps, || turns.next().copied().unwrap_or(false)), &without);
    }
}

#[test]
fn the_teacher_speaks_in_time_and_each_take_afresh() {
    let mut teacher = Teacher::default();
    let mut take = || {
        let mut outputs = Vec::new();
        for frame in 0..300 {
            teacher.push(&pose(frame), |row| outputs.push(row));
            let expected = if frame < TEACHER_START {
                0
            } else {
                frame + 1 - TEACHER_REACH
            };
            assert_eq!(outputs.len(), expected);
        }
        teacher.finish(|row| outputs.push(row));
        assert_eq!(outputs.len(), 300);
        outputs
    };
    assert_eq!(take(), take());
}
