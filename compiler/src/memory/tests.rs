//! Assignments of small programs hold, and damaged ones do not.

use super::schedule::{Assignment, Definition, Location, Schedule, Step};
use super::{assign, build, check};
use crate::kernel::lower::Numerics;
use crate::passes::{self, PassOptions};

fn schedule(source: &str) -> Schedule {
    let mut module = crate::text::parse(source).expect("the module parses");
    passes::optimize(&mut module, &PassOptions::default()).expect("the passes run");
    build(&module, Numerics::default()).expect("the module is scheduled")
}

/// A loop over arrays too large for registers whose body is `body` on `a`, `b` and the counter `i`.
fn looped(body: &str) -> String {
    format!(
        "HloModule looped
         cond {{
           p = (s32[], f32[128], f32[128]) parameter(0)
           i = s32[] get-tuple-element(p), index=0
           n = s32[] constant(10)
           ROOT lt = pred[] compare(i, n), direction=LT
         }}
         body {{
           p = (s32[], f32[128], f32[128]) parameter(0)
           i = s32[] get-tuple-element(p), index=0
           a = f32[128] get-tuple-element(p), index=1
           b = f32[128] get-tuple-element(p), index=2
           one = s32[] constant(1)
           next = s32[] add(i, one)
           {body}
         }}
         ENTRY main {{
           zero = s32[] constant(0)
           x = f32[128] parameter(0)
           y = f32[128] parameter(1)
           s = f32[128] add(x, y)
           init = (s32[], f32[128], f32[128]) tuple(zero, s, y)
           w = (s32[], f32[128], f32[128]) while(init), condition=cond, body=body
           wa = f32[128] get-tuple-element(w), index=1
           wb = f32[128] get-tuple-element(w), index=2
           ROOT out = (f32[128], f32[128]) tuple(wa, wb)
         }}"
    )
}

fn planned(source: &str) -> (Schedule, Assignment) {
    let schedule = schedule(source);
    let assignment = assign(&schedule).expect("a plan is found");
    check(&schedule, &assignment).expect("the plan holds");
    (schedule, assignment)
}

/// Copies of 512 bytes, the arrays', that the loop's body makes in each turn.
fn copies_in_the_body(schedule: &Schedule, assignment: &Assignment) -> usize {
    let entry = schedule.entry.expect("an entry");
    let body = schedule.blocks[entry].steps.iter().find_map(|step| match step {
        Step::While { body, .. } => Some(*body),
        _ => None,
    });
    let copies = &assignment.copies[body.expect("a loop")];
    copies.all().filter(|c| c.bytes == 512).count()
}

#[test]
fn a_body_that_swaps_gets_three_copies_and_no_more() {
    let (schedule, assignment) = planned(&looped("ROOT r = (s32[], f32[128], f32[128]) tuple(next, b, a)"));
    assert_eq!(copies_in_the_body(&schedule, &assignment), 3);
}

#[test]
fn a_state_is_updated_in_place() {
    let source = looped(
        "v = f32[1] slice(b), slice={[3:4]}
         u = f32[128] dynamic-update-slice(a, v, i)
         ROOT r = (s32[], f32[128], f32[128]) tuple(next, u, b)",
    );
    let (schedule, assignment) = planned(&source);
    assert_eq!(copies_in_the_body(&schedule, &assignment), 0);
}

#[test]
fn elementwise_states_need_no_copy() {
    let source = looped("d = f32[128] add(a, b)  ROOT r = (s32[], f32[128], f32[128]) tuple(next, d, b)");
    let (schedule, assignment) = planned(&source);
    assert_eq!(copies_in_the_body(&schedule, &assignment), 0);
}

#[test]
fn the_checker_sees_values_that_were_moved_onto_others() {
    let source = looped(
        "d = f32[128] add(a, b)
         e = f32[128] multiply(a, b)
         t = f32[128] exponential(d)
         ROOT r = (s32[], f32[128], f32[128]) tuple(next, t, e)",
    );
    let (schedule, assignment) = planned(&source);
    let moved: Vec<_> = schedule
        .values
        .iter()
        .filter(|(_, v)| v.definition == Definition::Step && v.shape.byte_size() == 512)
        .map(|(id, _)| id)
        .collect();
    let mut caught = 0;
    for &v in &moved {
        // Onto a parameter, which is read-only.
        let mut damaged = assignment.clone();
        damaged.locations[v] = Some(Location::Parameter(0));
        caught += usize::from(check(&schedule, &damaged).is_err());
    }
    assert!(!moved.is_empty());
    assert_eq!(caught, moved.len());
    let mut damaged = assignment.clone();
    for block in schedule.blocks.keys() {
        damaged.copies[block].before.iter_mut().for_each(Vec::clear);
        damaged.copies[block].at_end.clear();
    }
    assert!(check(&schedule, &damaged).is_err(), "copies were dropped");
}

#[test]
fn a_donated_parameter_is_updated_where_it_lies() {
    let source = |kind: &str| {
        format!(
            "HloModule step, input_output_alias={{ {{1}}: (0, {{}}, {kind}) }}
             ENTRY main {{
               w = f32[1024] parameter(0)
               g = f32[1024] parameter(1)
               k = s32[] constant(3)
               part = f32[1] slice(g), slice={{[5:6]}}
               new = f32[1024] dynamic-update-slice(w, part, k)
               ROOT out = (f32[1024], f32[1024]) tuple(g, new)
             }}"
        )
    };
    for (kind, must) in [("may-alias", false), ("must-alias", true)] {
        let (schedule, assignment) = planned(&source(kind));
        assert_eq!(schedule.donated, [(0, 1, must)]);
        // One copy, which the driver leaves out where the caller made the two one.
        let entry = schedule.entry.expect("an entry");
        let copies = &assignment.copies[entry];
        let large = copies.all().filter(|c| c.to == Location::Result(1));
        assert_eq!(large.map(|c| c.from).collect::<Vec<_>>(), [Location::Parameter(0)]);
        // Room for the part, and for no array.
        assert_eq!(assignment.workspace, 64);
    }
}
