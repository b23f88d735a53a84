//! Functions that say of a program what its descriptor says, for callers that cannot read one: they go into shared libraries.

use super::attribution::Attribution;
use super::effort::Effort;
use super::flow::enter;
use super::machine::machine_code;
use super::target::Target;
use crate::error::{Error, Result};
use crate::object::CompiledFunction;
use brolga_runtime::abi::DescriptorInfo;
use cranelift_codegen::Context;
use cranelift_codegen::ir::{AbiParam, Function, InstBuilder, Signature, UserFuncName, types};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::FuncId;

/// `fn(workers: u32) -> u64`: the bytes of workspace that the program needs for so many workers, as
/// [`DescriptorInfo::workspace_size`] computes them.
///
/// # Errors
/// [`crate::Error::Internal`] where Cranelift refuses the function.
pub fn workspace_size(symbol: &str, descriptor: &DescriptorInfo, target: &Target) -> Result<CompiledFunction> {
    let fixed = descriptor.workspace_size(0).and_then(|size| i64::try_from(size).ok());
    let each = i64::try_from(descriptor.workspace_per_worker).ok();
    let (Some(fixed), Some(each)) = (fixed, each) else {
        return Err(Error::Internal("the workspace is larger than memory".to_owned()));
    };
    let mut own = Signature::new(target.host_convention());
    own.params = vec![AbiParam::new(types::I32)];
    own.returns = vec![AbiParam::new(types::I64)];
    let mut function = Function::with_name_signature(UserFuncName::default(), own);
    let mut context = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut function, &mut context);
    let [workers] = enter(&mut b)[..] else {
        return Err(Error::Internal("a function without its parameter".to_owned()));
    };
    let workers = b.ins().uextend(types::I64, workers);
    let all = b.ins().imul_imm_s(workers, each);
    let size = b.ins().iadd_imm_s(all, fixed);
    b.ins().return_(&[size]);
    b.seal_all_blocks();
    b.finalize(target.isa.frontend_config());
    // It refers to nothing, itself included.
    machine_code(
        (FuncId::from_u32(0), Attribution::default()),
        symbol,
        function,
        (target, Effort::Least),
        &mut Context::new(),
    )
}
