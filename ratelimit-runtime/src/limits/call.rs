//! A call that needs the store or a wait.

use std::sync::Arc;

use super::{Limits, Observer};
use crate::{
    Permit, Rejection,
    limiter::{self, Claim, Services},
};

/// A call whose limiters are known.
pub(crate) struct Call {
    services: Arc<Services>,
    observer: Option<Observer>,
    /// `None` for a limit that exempts it.
    claims: Vec<Option<Claim>>,
}

impl Call {
    pub(crate) fn new(
        limits: &Limits,
        observer: Option<&Observer>,
        claims: impl IntoIterator<Item = Option<Claim>>,
    ) -> Self {
        Self {
            services: Arc::clone(limits.services()),
            observer: observer.cloned(),
            claims: claims.into_iter().collect(),
        }
    }

    /// Takes all permits or none, and reports that to the observer. Returns the permit of each limit, or the position of
    /// the one that rejects the call.
    pub(crate) async fn acquire(self) -> Result<Vec<Option<Permit>>, (usize, Rejection)> {
        let Self { services, observer, claims } = self;
        let claimed: Vec<bool> = claims.iter().map(Option::is_some).collect();
        let claims: Vec<Claim> = claims.into_iter().flatten().collect();
        match limiter::acquire(&services, &claims).await {
            Ok(permits) => {
                let mut permits = Vec::from(permits).into_iter();
                let permit = |claimed: &bool| claimed.then(|| permits.next()).flatten().flatten();
                let mut permits: Vec<_> = claimed.iter().map(permit).collect();
                if let Some(observer) = observer {
                    permits.iter_mut().flatten().for_each(|permit| observer.record_permit(permit));
                }
                Ok(permits)
            }
            Err((n, rejection)) => {
                if let Some(observer) = observer {
                    observer.record(Err(rejection.clone()));
                }
                let mut positions = (0..claimed.len()).filter(|n| claimed[*n]);
                Err((positions.nth(n).unwrap_or(n), rejection))
            }
        }
    }
}
