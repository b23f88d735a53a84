//! From a StableHLO program to an HLO module.
//!
//! Problem: StableHLO has several results where HLO has tuples, regions that see the values around them where HLO has
//! computations that see only their parameters, functions and composites, sizes left open, and quantised types. Invariant:
//! every instruction passes its shape rule when it is made, on fixed shapes; what the program says of a result's type must
//! agree with it, and both errors name the operation, its line and the Python line that it was traced from.
//!
//! Algorithm: function by function, operation by operation, from the entry. A function whose types are all fixed becomes
//! a computation once, and a `call` for each use; one with open sizes is converted anew at each call, in place, for the
//! shapes at hand. So sizes are refined by nothing but the shape rules: arguments have the shapes that the caller of the
//! reader gives, and an operand that says a size ([`Body::ints_of`]) is evaluated by the interpreter. Values of a region's
//! surroundings become parts of the state of a loop or of a branch's operand; constants are made again inside.

mod attributes;
mod body;
mod chlo;
mod collective;
mod contraction;
mod control;
mod custom_call;
mod elementwise;
mod entry;
mod movement;
mod quantized;
mod reduction;
mod special;

use super::ReadOptions;
use super::ir::{Attribute, Function, Location, LocationId, Operation, Program, Region, Type};
use crate::error::{Error, Result, Site};
use crate::hlo::{Computation, ComputationId, Module, ModuleConfig, SourceLocation, legal_name};
use brolga_runtime::{ArrayShape, Shape};
use cranelift_entity::PrimaryMap;
use cranelift_entity::packed_option::ReservedValue;
use hashbrown::{HashMap, HashSet};

use super::ir::{Dim, Element, TensorType};
use body::{Body, Graph, agrees as agrees_with};

/// Calls that are converted in place may nest so deep.
const MAX_CALLS: usize = 128;

/// Regions and calls may nest so deep together.
const MAX_DEPTH: usize = 160;

/// Instructions that all functions converted in place may make together, so that calls of calls stay bounded.
const MAX_INSTRUCTIONS: usize = 1 << 22;

/// Converts a program.
pub(super) fn lower(program: &Program, options: &ReadOptions) -> Result<Module> {
    let mut functions = HashMap::new();
    for function in &program.functions {
        functions.insert(function.name.as_str(), function);
    }
    let module = Module {
        name: program.name.clone().filter(|n| !n.is_empty()).map_or_else(|| "main".to_owned(), |n| legal_name(&n)),
        computations: PrimaryMap::new(),
        order: Vec::new(),
        entry: ComputationId::reserved_value(),
        config: ModuleConfig::default(),
    };
    let mut lowering = Lowering {
        program,
        module,
        functions,
        converted: HashMap::new(),
        names: HashMap::new(),
        taken: HashSet::new(),
        open: HashSet::new(),
        calls: Vec::new(),
        instructions: 0,
        depth: 0,
    };
    lowering.find_open();
    lowering.entry(options)?;
    let mut module = lowering.module;
    module.order = module.computations.keys().collect();
    if !module.sort_computations() {
        let message = "expected functions that do not call themselves".to_owned();
        return Err(Error::Invalid { site: Site::default(), constraint: "call.recursive", message });
    }
    Ok(module)
}

pub(super) use entry::open_dimensions;

/// A conversion under way.
struct Lowering<'p> {
    program: &'p Program,
    module: Module,
    functions: HashMap<&'p str, &'p Function>,
    /// Functions that have become computations.
    converted: HashMap<&'p str, ComputationId>,
    /// How many names of each stem computations have.
    names: HashMap<String, usize>,
    taken: HashSet<String>,
    /// Functions with open sizes, or that call one.
    open: HashSet<&'p str>,
    /// The functions being converted, outermost first.
    calls: Vec<&'p str>,
    /// Instructions made so far.
    instructions: usize,
    /// Regions and calls being converted.
    depth: usize,
}

impl<'p> Lowering<'p> {
    /// Finds the functions that must be converted in place.
    fn find_open(&mut self) {
        let mut callers: HashMap<&'p str, Vec<&'p str>> = HashMap::new();
        let mut work: Vec<&'p str> = Vec::new();
        for function in &self.program.functions {
            if is_open(function) {
                work.push(&function.name);
            }
            if let Some(body) = &function.body {
                for_each_operation(body, &mut |op| {
                    for callee in callees(op) {
                        callers.entry(callee).or_default().push(&function.name);
                    }
                });
            }
        }
        while let Some(name) = work.pop() {
            if self.open.insert(name) {
                work.extend(callers.get(name).into_iter().flatten());
            }
        }
    }

    /// The function called `name`, which must have a body.
    fn function(&self, name: &str) -> Option<&'p Function> {
        self.functions.get(name).copied()
    }

    /// A name for a computation that no other has.
    fn computation_name(&mut self, stem: &str) -> String {
        let stem = legal_name(stem);
        let count = self.names.entry(stem.clone()).or_insert(0);
        loop {
            let name = if *count == 0 { stem.clone() } else { format!("{stem}.{count}") };
            *count += 1;
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }

    /// The computation of a function without open sizes.
    fn computation_of(&mut self, function: &'p Function, site: &dyn Fn() -> Site) -> Result<ComputationId> {
        if let Some(&id) = self.converted.get(function.name.as_str()) {
            return Ok(id);
        }
        self.enter_call(function, site)?;
        let region = self.body_of(function, site)?;
        let mut body = Body::new(self, function);
        for (k, &argument) in region.arguments.iter().enumerate() {
            let ty = &function.values[argument].ty;
            body.graph.at = function.at;
            let shape = body.fixed_shape(ty)?;
            let name = parameter_name(body.lowering.program, function, k);
            let id = body.parameter(k, shape, &name)?;
            body.frame.values.insert(argument, id);
        }
        let results = body.operations(&region.body)?;
        let root = body.one_of(results)?;
        let graph = body.graph;
        let id = self.finish(graph, &function.name, root, function.at);
        self.calls.pop();
        self.converted.insert(&function.name, id);
        Ok(id)
    }

    fn body_of(&self, function: &'p Function, site: &dyn Fn() -> Site) -> Result<&'p Region> {
        function.body.as_ref().ok_or_else(|| Error::Unsupported {
            site: site(),
            feature: format!("a call of the function '@{}', which is declared but not defined", function.name),
        })
    }

    /// Begins the conversion of a function.
    fn enter_call(&mut self, function: &'p Function, site: &dyn Fn() -> Site) -> Result<()> {
        if self.calls.contains(&function.name.as_str()) {
            let message = format!("expected functions that do not call themselves, found '@{}'", function.name);
            return Err(Error::Invalid { site: site(), constraint: "call.recursive", message });
        }
        if self.calls.len() == MAX_CALLS {
            let feature = format!("calls nested more than {MAX_CALLS} deep");
            return Err(Error::Unsupported { site: site(), feature });
        }
        self.calls.push(&function.name);
        Ok(())
    }

    /// Adds a computation to the module.
    fn finish(
        &mut self,
        graph: Graph,
        name: &str,
        root: crate::hlo::InstructionId,
        location: SourceLocation,
    ) -> ComputationId {
        let name = self.computation_name(name);
        let order = graph.instructions.keys().collect();
        self.module.computations.push(Computation {
            name,
            instructions: graph.instructions,
            order,
            root,
            trailing: String::new(),
            location,
        })
    }

    /// The name and the file that an operation was traced from: what HLO keeps as metadata.
    fn origin(&self, id: Option<LocationId>) -> Origin {
        let mut origin = Origin::default();
        let mut next = id;
        // Locations may be defined after their use and so, in hostile texts, form circles.
        for _ in 0..super::ir::MAX_NESTING {
            let Some(location) = next.and_then(|id| self.program.locations.get(id)) else { break };
            next = match location {
                Location::Unknown => None,
                Location::File { file, line, column } => {
                    origin.file = Some((file.to_string(), *line, *column));
                    None
                }
                Location::Name { name, child } => {
                    origin.name.get_or_insert_with(|| name.to_string());
                    *child
                }
                Location::CallSite { callee, .. } => Some(*callee),
                Location::Fused(parts) => parts.first().copied(),
            };
        }
        origin
    }
}

/// Where an operation was traced from.
#[derive(Clone, Debug, Default)]
struct Origin {
    name: Option<String>,
    file: Option<(String, u32, u32)>,
}

/// What a parameter is called: as the argument's location or the text names it.
fn parameter_name(program: &Program, function: &Function, k: usize) -> String {
    let data = function.body.as_ref().and_then(|b| b.arguments.get(k)).map(|&v| &function.values[v]);
    let located = data.and_then(|d| d.location).and_then(|l| program.locations.get(l));
    let name = match (located, data) {
        (Some(Location::Name { name, .. }), _) => name.to_string(),
        (_, Some(data)) if !data.name.is_empty() => data.name.to_string(),
        _ => format!("arg{k}"),
    };
    legal_name(&name)
}

/// Functions that an operation calls.
fn callees(op: &Operation) -> Vec<&str> {
    let symbol = |a: &'_ Attribute| matches!(a, Attribute::Symbol(_) | Attribute::String(_));
    let mut out = Vec::new();
    for name in ["callee", "decomposition"] {
        out.extend(op.attribute(name).filter(|a| symbol(a)).and_then(symbol_name));
    }
    if let Some(Attribute::Array(list)) = op.attribute("called_computations") {
        out.extend(list.iter().filter_map(symbol_name));
    }
    out
}

/// The name in a reference to a function: a symbol, or a string as VHLO has it.
fn symbol_name(attribute: &Attribute) -> Option<&str> {
    match attribute {
        Attribute::Symbol(parts) => match parts.as_slice() {
            [one] => Some(one),
            _ => None,
        },
        other => other.to_str(),
    }
}

fn for_each_operation<'p>(region: &'p Region, visit: &mut impl FnMut(&'p Operation)) {
    for op in &region.body {
        visit(op);
        for inner in &op.regions {
            for_each_operation(inner, visit);
        }
    }
}

/// Whether a function has open sizes, or operations that take sizes as operands.
fn is_open(function: &Function) -> bool {
    let open = |ty: &Type| match ty {
        Type::Tensor(t) => t.dims.contains(&Dim::Dynamic),
        Type::Unranked(_) => true,
        _ => false,
    };
    let mut takes_sizes = false;
    if let Some(body) = &function.body {
        for_each_operation(body, &mut |op| {
            let name = op.name.strip_prefix("stablehlo.").unwrap_or_default();
            takes_sizes |= name.starts_with("dynamic_") && !matches!(name, "dynamic_slice" | "dynamic_update_slice");
            takes_sizes |= matches!(name, "real_dynamic_slice");
        });
    }
    takes_sizes || function.values.values().any(|v| open(&v.ty))
}

/// The shape of a type whose sizes are all fixed or bounded.
fn shape_of(ty: &Type) -> std::result::Result<Shape, String> {
    match ty {
        Type::Tensor(t) => array_shape(t).map(Shape::Array),
        Type::Buffer(t) => array_shape(t).map(Shape::Buffer),
        Type::Token => Ok(Shape::Token),
        Type::Tuple(parts) | Type::Future(parts) => {
            Ok(Shape::Tuple(parts.iter().map(shape_of).collect::<std::result::Result<_, _>>()?))
        }
        Type::Unranked(_) => Err(format!("the open size of {ty}")),
        other => Err(format!("the type {other}")),
    }
}

fn array_shape(ty: &TensorType) -> std::result::Result<ArrayShape, String> {
    let element = element_type(&ty.element)?;
    let mut dims = Vec::with_capacity(ty.dims.len());
    let mut dynamic = Vec::with_capacity(ty.dims.len());
    for dim in &ty.dims {
        match dim {
            Dim::Fixed(n) => {
                dims.push(*n);
                dynamic.push(false);
            }
            Dim::Bounded(n) => {
                dims.push(*n);
                dynamic.push(true);
            }
            Dim::Dynamic => return Err(format!("the open size of tensor<{ty}>")),
        }
    }
    Ok(ArrayShape { ty: element, dims, dynamic, layout: None })
}

/// The type in which elements are computed: of quantised types, the stored integers.
fn element_type(element: &Element) -> std::result::Result<brolga_runtime::ElementType, String> {
    super::text::storage_type(element).ok_or_else(|| format!("the element type {element}"))
}
