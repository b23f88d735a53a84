//! Several replicas, feeds, channels and custom calls: what needs someone beside the program. They run in the
//! interpreter, with as many devices as the example has.

use brolga_compiler::builder::{Builder, Op, scalar_computation};
use brolga_compiler::hlo::{AttrKey, Instruction, Module, Opcode};
use brolga_compiler::interp::{Host, Options, run_devices, run_with};
use brolga_compiler::{Error, Result, shape, text};
use brolga_runtime::ElementType::{F32, U32};
use brolga_runtime::{ArrayLiteral, Literal, Shape};

/// Runs a program of one vector on one replica a row.
fn replicas(rows: &[&[f32]], build: impl Fn(&Builder, Op) -> Op) -> Vec<Literal> {
    let b = Builder::new("replicas");
    let x = b.parameter(0, Shape::array(F32, [rows[0].len() as i64]), "x");
    let root = build(&b, x);
    let module = b.build_with_root(root).unwrap_or_else(|e| panic!("{e}"));
    let row = |r: &&[f32]| vec![Literal::Array(ArrayLiteral::from_elements(&[r.len() as i64], r))];
    let inputs: Vec<Vec<Literal>> = rows.iter().map(row).collect();
    run_devices(&module, &inputs, rows.len(), 1, &Options::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn vector(values: &[f32]) -> Literal {
    Literal::Array(ArrayLiteral::from_elements(&[values.len() as i64], values))
}

fn add() -> Module {
    scalar_computation(Opcode::Add, F32).unwrap()
}

#[test]
fn all_gather_of_two_replicas() {
    let got = replicas(&[&[1.0, 2.5], &[3.0, 5.25]], |b, x| b.all_gather(x, 0, 2, &[], None));
    assert_eq!(got, [vector(&[1.0, 2.5, 3.0, 5.25]), vector(&[1.0, 2.5, 3.0, 5.25])]);
}

#[test]
fn all_gather_within_groups() {
    let rows: [&[f32]; 4] = [&[0.0], &[1.0], &[2.0], &[3.0]];
    let got = replicas(&rows, |b, x| b.all_gather(x, 0, 2, &[vec![0, 2], vec![1, 3]], None));
    let (even, odd) = (vector(&[0.0, 2.0]), vector(&[1.0, 3.0]));
    assert_eq!(got, [even.clone(), odd.clone(), even, odd]);
}

#[test]
fn all_reduce_of_two_replicas() {
    let got = replicas(&[&[1.0, 2.5], &[3.0, 5.25]], |b, x| b.all_reduce(x, &add(), &[], None));
    assert_eq!(got, [vector(&[4.0, 7.75]), vector(&[4.0, 7.75])]);
}

#[test]
fn all_reduce_of_a_tuple_is_a_tuple() {
    let got = replicas(&[&[1.0], &[3.0]], |b, x| {
        let pair = b.tuple(&[x, b.neg(x)]);
        b.all_reduce(pair, &add(), &[], None)
    });
    let pair = Literal::Tuple(vec![vector(&[4.0]), vector(&[-4.0])]);
    assert_eq!(got, [pair.clone(), pair]);
    let got = replicas(&[&[1.0], &[3.0]], |b, x| b.all_reduce(b.tuple(&[x]), &add(), &[], None));
    assert_eq!(got[0], Literal::Tuple(vec![vector(&[4.0])]));
}

/// Of the oldest version only.
#[test]
fn cross_replica_sum_of_two_replicas() {
    let got = replicas(&[&[1.0, 2.5], &[3.0, 5.1]], |b, x| b.cross_replica_sum(x));
    assert_eq!(got, [vector(&[4.0, 7.6]), vector(&[4.0, 7.6])]);
}

#[test]
fn reduce_scatter_of_two_replicas() {
    let got = replicas(&[&[1.0, 2.25], &[3.0, 5.25]], |b, x| b.reduce_scatter(x, &add(), 0, 2, &[], None));
    assert_eq!(got, [vector(&[4.0]), vector(&[7.5])]);
}

#[test]
fn reduce_scatter_of_a_tuple_is_a_tuple() {
    let got = replicas(&[&[1.0, 2.25], &[3.0, 5.25]], |b, x| {
        b.reduce_scatter(b.tuple(&[x, b.neg(x)]), &add(), 0, 2, &[], None)
    });
    assert_eq!(got[0], Literal::Tuple(vec![vector(&[4.0]), vector(&[-4.0])]));
    assert_eq!(got[1], Literal::Tuple(vec![vector(&[7.5]), vector(&[-7.5])]));
    let got = replicas(&[&[1.0, 2.25], &[3.0, 5.25]], |b, x| b.reduce_scatter(b.tuple(&[x]), &add(), 0, 2, &[], None));
    assert_eq!(got[1], Literal::Tuple(vec![vector(&[7.5])]));
}

/// The split count is the number of cores, also where nothing else says it.
#[test]
fn all_to_all_has_as_many_cores_as_it_splits_into() {
    let module = |split: i64, concat: i64| {
        let b = Builder::new("alltoall");
        b.all_to_all(b.parameter(0, Shape::array(F32, [4, 4]), "x"), split, concat, 2, &[]);
        b.build().unwrap()
    };
    let x = || vec![Literal::Array(ArrayLiteral::from_elements(&[4, 4], &[0f32; 16]))];
    for module in [module(0, 0), module(0, 1)] {
        assert!(run_devices(&module, &[x(), x()], 2, 1, &Options::default()).is_ok());
        let four = [x(), x(), x(), x()];
        assert!(matches!(run_devices(&module, &four, 4, 1, &Options::default()), Err(Error::Execution { .. })));
        let one = run_devices(&module, &four[..1], 1, 1, &Options::default());
        assert!(matches!(one, Err(Error::Invalid { constraint: "collective.devices", .. })), "{one:?}");
    }
}

#[test]
fn all_to_all_of_four_cores() {
    let b = Builder::new("alltoall");
    let x = b.parameter(0, Shape::array(F32, [4, 16]), "x");
    let root = b.all_to_all(x, 1, 0, 4, &[]);
    assert_eq!(b.shape(root).unwrap(), Shape::array(F32, [16, 4]));
    let module = b.build_with_root(root).unwrap();
    let element = |core: usize, row: usize, column: usize| (core * 1000 + row * 100 + column) as f32;
    let inputs: Vec<Vec<Literal>> = (0..4)
        .map(|core| {
            let data: Vec<f32> = (0..64).map(|i| element(core, i / 16, i % 16)).collect();
            vec![Literal::Array(ArrayLiteral::from_elements(&[4, 16], &data))]
        })
        .collect();
    let got = run_devices(&module, &inputs, 4, 1, &Options::default()).unwrap();
    for (core, got) in got.iter().enumerate() {
        // Row 4 k + r holds what core k has in row r of its block for this core.
        let want: Vec<f32> = (0..64).map(|i| element(i / 16, i / 4 % 4, core * 4 + i % 4)).collect();
        assert_eq!(got, &Literal::Array(ArrayLiteral::from_elements(&[16, 4], &want)), "core {core}");
    }
}

#[test]
fn collective_permute_leaves_zeros_where_nothing_arrives() {
    let rows: [&[f32]; 3] = [&[1.0], &[2.0], &[3.0]];
    let got = replicas(&rows, |b, x| b.collective_permute(x, &[(0, 1), (1, 2)]));
    assert_eq!(got, [vector(&[0.0]), vector(&[1.0]), vector(&[2.0])]);
    for pairs in [[(0, 1), (2, 1)], [(0, 1), (0, 2)]] {
        let b = Builder::new("twice");
        b.collective_permute(b.parameter(0, Shape::array(F32, [1]), "x"), &pairs);
        assert!(b.build().is_err(), "{pairs:?} names a replica twice");
    }
}

#[test]
fn replica_id_differs_on_each_replica() {
    let got = replicas(&[&[0.0], &[0.0], &[0.0]], |b, _| b.replica_id());
    assert_eq!(got, [0u32, 1, 2].map(Literal::scalar));
}

/// The function of the section, a feed of 1, 2, 3, ..., and a channel that gives back what was sent.
#[derive(Default)]
struct Outside {
    fed: f32,
    taken: Vec<Literal>,
    channel: Vec<Literal>,
}

impl Host for Outside {
    fn custom_call(&mut self, inst: &Instruction, operands: &[&Literal]) -> Result<Literal> {
        assert_eq!(inst.attrs.str(AttrKey::CustomCallTarget), Some("myfunc"));
        let array = |k: usize| operands[k].as_array().unwrap().as_slice::<f32>();
        let (x, y) = (array(0), array(1));
        assert_eq!((x, y), (&[1f32, 2.0][..], &[10f32, 20.0, 30.0, 40.0, 50.0, 60.0][..]));
        let mut z = [0f32; 9];
        z[0] = x[1] + y[3];
        Ok(Literal::Array(ArrayLiteral::from_elements(&[3, 3], &z)))
    }

    fn infeed(&mut self, _: &Instruction) -> Result<Literal> {
        self.fed += 1.0;
        Ok(Literal::scalar(self.fed))
    }

    fn outfeed(&mut self, _: &Instruction, value: &Literal) -> Result<()> {
        self.taken.push(value.clone());
        Ok(())
    }

    fn send(&mut self, _: &Instruction, value: &Literal) -> Result<()> {
        self.channel.push(value.clone());
        Ok(())
    }

    fn recv(&mut self, _: &Instruction, _: u32) -> Result<Literal> {
        Ok(self.channel.remove(0))
    }
}

fn outside(module: &Module) -> (Literal, Outside) {
    shape::verify(module).unwrap();
    let mut host = Outside::default();
    let got = run_with(module, &[], &Options::default(), &mut host).unwrap_or_else(|e| panic!("{e}"));
    (got, host)
}

#[test]
fn custom_call_of_the_users_function() {
    let b = Builder::new("main");
    let x = b.constant_r1(&[1f32, 2.0]);
    let y = b.constant(&[2, 3], &[10f32, 20.0, 30.0, 40.0, 50.0, 60.0]);
    b.custom_call("myfunc", &[x, y], Shape::array(F32, [3, 3]));
    let (got, _) = outside(&b.build().unwrap());
    assert_eq!(got.as_array().unwrap().as_slice::<f32>(), [42f32, 0., 0., 0., 0., 0., 0., 0., 0.]);
}

/// Two loops, each of which reads an item a turn; the second starts from the first's result, and so comes after it.
#[test]
fn infeeds_of_two_loops_are_ordered() {
    let state = Shape::tuple(vec![Shape::scalar(U32), Shape::scalar(F32)]);
    let c = Builder::new("condition");
    let s = c.parameter(0, state.clone(), "s");
    c.lt(c.get_tuple_element(s, 0), c.constant_r0(2u32));
    let condition = c.build().unwrap();
    let body = |name: &str, weight: f32| {
        let b = Builder::new(name);
        let s = b.parameter(0, state.clone(), "s");
        let item = b.infeed(Shape::scalar(F32));
        let next = b.add(b.get_tuple_element(s, 0), b.constant_r0(1u32));
        let sum = b.add(b.get_tuple_element(s, 1), b.mul(item, b.constant_r0(weight)));
        let root = b.tuple(&[next, sum]);
        b.build_with_root(root).unwrap()
    };
    let b = Builder::new("main");
    let init = b.tuple(&[b.constant_r0(0u32), b.constant_r0(0f32)]);
    let first = b.while_(&condition, &body("first", 1.0), init);
    let again = b.tuple(&[b.constant_r0(0u32), b.get_tuple_element(first, 1)]);
    let second = b.while_(&condition, &body("second", 100.0), again);
    let root = b.get_tuple_element(second, 1);
    let (got, host) = outside(&b.build_with_root(root).unwrap());
    assert_eq!(got, Literal::scalar(1f32 + 2.0 + 300.0 + 400.0));
    assert_eq!(host.fed, 4.0);
}

#[test]
fn outfeed_takes_a_value() {
    let b = Builder::new("main");
    let x = b.constant_r1(&[1f32, 2.0]);
    b.outfeed(x);
    let (_, host) = outside(&b.build_with_root(x).unwrap());
    assert_eq!(host.taken, [vector(&[1.0, 2.0])]);
}

#[test]
fn what_is_sent_is_received() {
    let b = Builder::new("main");
    b.send(b.constant_r1(&[1f32, 2.0]), 7);
    let x = b.recv(Shape::array(F32, [2]), 7);
    let (got, _) = outside(&b.build_with_root(x).unwrap());
    assert_eq!(got, vector(&[1.0, 2.0]));
}

#[test]
fn after_all_joins_tokens() {
    let b = Builder::new("main");
    let (one, two) = (b.outfeed(b.constant_r0(1f32)), b.outfeed(b.constant_r0(2f32)));
    let joined = b.after_all(&[one, two]);
    let x = b.add_dependency(b.constant_r0(3f32), joined);
    let (got, host) = outside(&b.build_with_root(x).unwrap());
    assert_eq!((got, host.taken.len()), (Literal::scalar(3f32), 2));
}

/// Runs a text of `x = f32[2] parameter(0)` on replicas, of which the first has {0, 0}, the next {1, 10}, and so on.
fn transfers(body: &str, replicas: usize) -> Result<Vec<Literal>> {
    let source = format!("HloModule transfers\n{body}");
    let module = text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}"));
    shape::verify(&module).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let inputs: Vec<Vec<Literal>> = (0..replicas).map(|r| vec![vector(&[r as f32, 10.0 * r as f32])]).collect();
    run_devices(&module, &inputs, replicas, 1, &Options::default())
}

/// Each replica sends to the next, and all `recv` before anybody sends; once with the context of two elements that the
/// section shows, once with the token that XLA adds.
#[test]
fn send_and_recv_between_replicas() {
    for (context, pairs) in [
        ("(f32[2], u32[])", "source_target_pairs={{0,1},{1,2}}"),
        ("(f32[2], u32[], token[])", "frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,2}}}"),
        ("(f32[2], u32[])", "frontend_attributes={a=\"b\",_xla_send_recv_source_target_pairs=\"{{0,1},{1,2}}\"}"),
    ] {
        let body = format!(
            "ENTRY main {{
              x = f32[2] parameter(0)
              t = token[] after-all()
              r = {context} recv(t), channel_id=1, {pairs}
              s = {context} send(x, t), channel_id=1, {pairs}
              rd = (f32[2], token[]) recv-done(r), channel_id=1
              sd = token[] send-done(s), channel_id=1
              ROOT got = f32[2] get-tuple-element(rd), index=0
            }}"
        );
        let got = transfers(&body, 3).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(got, [vector(&[0.0, 0.0]), vector(&[0.0, 0.0]), vector(&[1.0, 10.0])]);
        let two = transfers(&body, 2);
        let named = matches!(two, Err(Error::Invalid { constraint: "collective.devices", .. }));
        assert!(named, "a pair names a third device: {two:?}");
    }
}

/// Values arrive in the order in which they were sent, also where the ends of a channel are in different branches.
#[test]
fn a_channel_without_pairs_has_two_ends() {
    let program = |first: &str| {
        format!(
            "sends {{
              x = f32[2] parameter(0)
              t = token[] after-all()
              a = (f32[2], u32[]) send(x, t), channel_id=3
              ad = token[] send-done(a), channel_id=3
              n = f32[2] negate(x)
              b = (f32[2], u32[]) send(n, ad), channel_id=4
              bd = token[] send-done(b), channel_id=4
              ROOT r = f32[2] add-dependency(x, bd)
            }}
            receives {{
              x = f32[2] parameter(0)
              t = token[] after-all()
              b = (f32[2], u32[]) recv(t), channel_id=4
              bd = (f32[2], token[]) recv-done(b), channel_id=4
              a = (f32[2], u32[]) recv(t), channel_id=3
              ad = (f32[2], token[]) recv-done(a), channel_id=3
              one = f32[2] get-tuple-element(ad), index=0
              two = f32[2] get-tuple-element(bd), index=0
              ROOT r = f32[2] subtract(one, two)
            }}
            ENTRY main {{
              x = f32[2] parameter(0)
              id = u32[] replica-id()
              i = s32[] convert(id)
              ROOT r = f32[2] conditional(i, x, x), branch_computations={{{first}}}
            }}"
        )
    };
    let got = transfers(&program("receives, sends"), 2).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(got, [vector(&[2.0, 20.0]), vector(&[1.0, 10.0])]);
    let nobody = transfers(&program("receives, receives"), 2);
    assert!(matches!(&nobody, Err(Error::Execution { .. })), "{nobody:?}");
    let both = transfers(&program("sends, sends"), 2);
    assert!(
        matches!(&both, Err(Error::Execution { message, .. }) if message.contains("source_target_pairs")),
        "{both:?}"
    );
}

/// Each group by itself, in the order in which it lists its members.
#[test]
fn all_reduce_and_reduce_scatter_within_groups() {
    let rows: [&[f32]; 4] = [&[1.0, 10.0], &[2.0, 20.0], &[4.0, 40.0], &[8.0, 80.0]];
    let groups = [vec![0, 2], vec![3, 1]];
    let got = replicas(&rows, |b, x| b.all_reduce(x, &add(), &groups, None));
    let (even, odd) = (vector(&[5.0, 50.0]), vector(&[10.0, 100.0]));
    assert_eq!(got, [even.clone(), odd.clone(), even, odd]);
    let got = replicas(&rows, |b, x| b.reduce_scatter(x, &add(), 0, 2, &groups, None));
    assert_eq!(got, [vector(&[5.0]), vector(&[100.0]), vector(&[50.0]), vector(&[10.0])]);
}

/// The groups of the section: blocks go to 1, 2, 3 in this order, and to 4, 5, 0 in that.
#[test]
fn all_to_all_within_groups_in_their_order() {
    let rows: Vec<[f32; 3]> = (0..6).map(|r| [0, 1, 2].map(|k| (10 * r + k) as f32)).collect();
    let rows: Vec<&[f32]> = rows.iter().map(|r| &r[..]).collect();
    let got = replicas(&rows, |b, x| b.all_to_all(x, 0, 0, 3, &[vec![1, 2, 3], vec![4, 5, 0]]));
    for group in [[1, 2, 3], [4, 5, 0]] {
        for (place, member) in group.into_iter().enumerate() {
            let want = group.map(|from| (10 * from + place) as f32);
            assert_eq!(got[member], vector(&want), "replica {member}");
        }
    }
}

/// No tuple, a dimension of the operand, a size that the count divides.
#[test]
fn all_to_all_refuses_what_it_cannot_split() {
    let wrong: [fn(&Builder, Op) -> Op; 4] = [
        |b, x| b.all_to_all(b.tuple(&[x]), 0, 1, 2, &[]),
        |b, x| b.all_to_all(x, 2, 0, 2, &[]),
        |b, x| b.all_to_all(x, 0, 2, 2, &[]),
        |b, x| b.all_to_all(x, 0, 1, 3, &[]),
    ];
    for make in wrong {
        let b = Builder::new("wrong");
        make(&b, b.parameter(0, Shape::array(F32, [4, 6]), "x"));
        assert!(b.build().is_err());
    }
}

/// The first member of each group is heard by all of it.
#[test]
fn collective_broadcast_of_the_first() {
    let rows: [&[f32]; 4] = [&[0.0], &[1.0], &[2.0], &[3.0]];
    let got = replicas(&rows, |b, x| b.collective_broadcast(x, &[vec![2, 0], vec![1, 3]], None));
    assert_eq!(got, [vector(&[2.0]), vector(&[1.0]), vector(&[2.0]), vector(&[1.0])]);
    let got = replicas(&[&[0.0], &[0.0]], |b, _| b.partition_id());
    assert_eq!(got, [0u32, 0].map(Literal::scalar), "replicas of one partition");
}
