//! The body of a response: the inner service's, or that of a rejection.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

#[cfg(feature = "actix")]
use actix_web::body::{BodySize, MessageBody};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::Limits;

pin_project! {
    /// The body of a response of a [`LimitService`](super::LimitService): that of the inner
    /// service, or of a rejection.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{Response, StatusCode};
    /// use http_body::Body;
    /// use ratelimit_runtime::tower::LimitBody;
    ///
    /// /// The response of a layer outside of the limit, for services with the body `B`.
    /// fn timed_out<B: Default>() -> Response<LimitBody<B>> {
    ///     let mut response = Response::new(LimitBody::default());
    ///     *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
    ///     response
    /// }
    ///
    /// assert!(timed_out::<String>().body().is_end_stream());
    /// ```
    pub struct LimitBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<B> {
        Inner { #[pin] body: B, limits: Option<Limits> },
        Own { text: Option<Bytes> },
    }
}

impl<B> LimitBody<B> {
    /// Creates the body of the inner service, whose frames are produced with these limits, or with those of the
    /// calling code: a stream can call annotated functions.
    pub(super) fn inner(body: B, limits: Option<Limits>) -> Self {
        Self { kind: Kind::Inner { body, limits } }
    }

    /// Creates a text body, which may be empty.
    pub(super) fn own(text: String) -> Self {
        let text = Some(Bytes::from(text)).filter(|text| !text.is_empty());
        Self { kind: Kind::Own { text } }
    }
}

/// An empty body, as layers outside need for responses of their own: `CorsLayer` and `TimeoutLayer` of `tower-http`.
impl<B: Default> Default for LimitBody<B> {
    fn default() -> Self {
        Self::inner(B::default(), None)
    }
}

impl<B: Body<Data = Bytes>> Body for LimitBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().kind.project() {
            KindProjection::Inner { body, limits } => {
                Limits::during(limits.as_ref(), || body.poll_frame(context))
            }
            KindProjection::Own { text } => {
                Poll::Ready(text.take().map(|text| Ok(Frame::data(text))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Inner { body, .. } => body.is_end_stream(),
            Kind::Own { text } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Inner { body, .. } => body.size_hint(),
            Kind::Own { text } => SizeHint::with_exact(length(text.as_ref())),
        }
    }
}

#[cfg(feature = "actix")]
impl<B: MessageBody> MessageBody for LimitBody<B> {
    type Error = B::Error;

    fn size(&self) -> BodySize {
        match &self.kind {
            Kind::Inner { body, .. } => body.size(),
            Kind::Own { text } => BodySize::Sized(length(text.as_ref())),
        }
    }

    fn poll_next(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, B::Error>>> {
        match self.project().kind.project() {
            KindProjection::Inner { body, limits } => {
                Limits::during(limits.as_ref(), || body.poll_next(context))
            }
            KindProjection::Own { text } => Poll::Ready(text.take().map(Ok)),
        }
    }
}

fn length(text: Option<&Bytes>) -> u64 {
    u64::try_from(text.map_or(0, Bytes::len)).unwrap_or(u64::MAX)
}

impl<B> fmt::Debug for LimitBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_rejection = matches!(self.kind, Kind::Own { .. });
        f.debug_struct("LimitBody").field("is_rejection", &is_rejection).finish_non_exhaustive()
    }
}
