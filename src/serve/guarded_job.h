// Work on a request that a worker thread does.
#pragma once

#include <memory>
#include <new>
#include <utility>

#include "base/worker_pool.h"
#include "serve/http.h"
#include "serve/refusal.h"

namespace tandem {

// `job`, but where it finds no memory the exchange is answered: a pool forgets what its jobs throw,
// and the client would wait for ever.
template <class Work>
WorkerPool::Job guarded_job(ErrorFormat error_format, std::shared_ptr<HttpExchange> exchange,
                            Work work) {
  return WorkerPool::Job([error_format, exchange = std::move(exchange),
                          work = std::move(work)]() mutable {
    try {
      work();
    } catch (const std::bad_alloc&) {
      post_response(exchange, error_format(Status{StatusCode::kUnavailable,
                                                  "no memory for this request; try again later"}));
    }
  });
}

}  // namespace tandem
