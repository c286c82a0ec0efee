//! Methods that `#[async_trait]` has rewritten before our attribute sees them, and those written in the same way.

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::parse::Parser;
use syn::{
    Attribute, Block, Expr, ExprAsync, ExprCall, GenericArgument, Local, Pat, PathArguments,
    ReturnType, Signature, Stmt, Type, TypeParamBound,
};

/// `Box::pin(async move { .. })`, split at the point where the guard belongs.
pub(crate) struct Boxed {
    call: ExprCall,
    /// The statements that bind the parameters; they run no user code.
    before: Vec<Stmt>,
    /// The rest, including the user's body.
    after: Vec<Stmt>,
}

// Input:
//     Box::pin(async move {
//         if let Some(__ret) = None::<Ret> { return __ret; }
//         let __self = self;
//         let x = x;
//         let (a, b) = { let __arg2 = __arg2; __arg2 };
//         let __ret: Ret = { body };
//         __ret
//     })
//
// Output of `with_guarded`:
//     Box::pin(async move {
//         if let Some(__ret) = None::<Ret> { return __ret; }
//         let __self = self;
//         let x = x;
//         let (a, b) = { let __arg2 = __arg2; __arg2 };
//         guarded({ let __ret: Ret = { body }; __ret })
//     })
impl Boxed {
    /// Returns `None` if the body is anything but that one call: code before it would run before admission.
    pub(crate) fn find(sig: &Signature, body: &TokenStream) -> Option<Self> {
        if !returns_a_boxed_future(sig) {
            return None;
        }
        let statements = Block::parse_within.parse2(body.clone()).ok()?;
        let [Stmt::Expr(Expr::Call(call), None)] = <[Stmt; 1]>::try_from(statements).ok()? else {
            return None;
        };
        if !is_box_pin(&call.func) || call.args.len() != 1 {
            return None;
        }
        let Some(Expr::Async(future)) = call.args.first() else {
            return None;
        };
        let statements = &future.block.stmts;
        let bound = statements.iter().take_while(|statement| binds_a_parameter(statement)).count();
        let (before, after) = (statements[..bound].to_vec(), statements[bound..].to_vec());
        Some(Self { call, before, after })
    }

    /// Returns the attributes and the patterns of the parameters.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = (&[Attribute], &Pat)> {
        self.before.iter().filter_map(|statement| match statement {
            Stmt::Local(local) => Some((&*local.attrs, &local.pat)),
            _ => None,
        })
    }

    /// Returns the `__self` that replaces the receiver.
    pub(crate) fn receiver(&self) -> Option<Ident> {
        self.before.iter().find_map(|statement| match statement {
            Stmt::Local(Local { pat: Pat::Ident(pat), .. }) if pat.ident == "__self" => {
                Some(pat.ident.clone())
            }
            _ => None,
        })
    }

    /// Returns the body with `guarded` applied to the user's code.
    pub(crate) fn with_guarded(
        &self,
        guarded: impl FnOnce(TokenStream) -> TokenStream,
    ) -> TokenStream {
        let mut call = self.call.clone();
        if let Some(Expr::Async(ExprAsync { block, .. })) = call.args.first_mut() {
            let after = &self.after;
            let rest = guarded(after.iter().map(ToTokens::to_token_stream).collect());
            block.stmts.clone_from(&self.before);
            block.stmts.push(Stmt::Expr(Expr::Verbatim(rest), None));
        }
        call.into_token_stream()
    }
}

pub(crate) fn returns_a_boxed_future(sig: &Signature) -> bool {
    matches!(&sig.output, ReturnType::Type(_, declared) if output_of(declared).is_some())
}

/// Returns `Ret` of `Pin<Box<dyn Future<Output = Ret> + ..>>`, or of the aliases of it in the crate `futures`.
pub(crate) fn output_of(declared: &Type) -> Option<&Type> {
    let of_an_alias = |alias| argument_of(declared, alias);
    if let Some(output) = ["BoxFuture", "LocalBoxFuture"].into_iter().find_map(of_an_alias) {
        return Some(output);
    }
    let Type::TraitObject(object) = argument_of(argument_of(declared, "Pin")?, "Box")? else {
        return None;
    };
    object.bounds.iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else {
            return None;
        };
        let future = bound.path.segments.last().filter(|segment| segment.ident == "Future")?;
        let PathArguments::AngleBracketed(arguments) = &future.arguments else {
            return None;
        };
        arguments.args.iter().find_map(|argument| match argument {
            GenericArgument::AssocType(output) if output.ident == "Output" => Some(&output.ty),
            _ => None,
        })
    })
}

fn argument_of<'a>(ty: &'a Type, wrapper: &str) -> Option<&'a Type> {
    let Type::Path(path) = ty else {
        return None;
    };
    let segment = path.path.segments.last().filter(|segment| segment.ident == wrapper)?;
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return None;
    };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

fn is_box_pin(callee: &Expr) -> bool {
    let Expr::Path(path) = callee else {
        return false;
    };
    let names: Vec<String> =
        path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    matches!(names.as_slice(), [.., owner, function] if owner == "Box" && function == "pin")
}

/// Matches `let x = x;`, `let __self = self;`, `let (a, b) = { let __arg1 = __arg1; __arg1 };`, and the `if let` before
/// them that gives rustc the return type.
fn binds_a_parameter(statement: &Stmt) -> bool {
    match statement {
        Stmt::Local(Local { pat, init: Some(init), .. }) => match (&*init.expr, pat) {
            (Expr::Path(source), Pat::Ident(bound)) => {
                source.path.is_ident(&bound.ident)
                    || (source.path.is_ident("self") && bound.ident == "__self")
            }
            (Expr::Block(block), _) => matches!(
                block.block.stmts.last(),
                Some(Stmt::Expr(Expr::Path(last), None))
                    if last.path.get_ident().is_some_and(|name| name.to_string().starts_with("__arg"))
            ),
            _ => false,
        },
        Stmt::Expr(Expr::If(first), _) => match &*first.cond {
            Expr::Let(condition) => condition.pat.to_token_stream().to_string().contains("__ret"),
            _ => false,
        },
        _ => false,
    }
}
