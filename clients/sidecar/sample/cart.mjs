// SPDX-License-Identifier: Apache-2.0

// A cart in memory. It knows nothing of pods: the sidecar sends all requests of a cart to one pod at a time.
//
// Its memory is a cache. What must survive a pod is in PostgreSQL, and each write there carries the epoch of the shard:
// a pod that does not know yet that it has lost the shard cannot overwrite what the next one has written.
import http from "node:http";
import pg from "pg";

const db = new pg.Pool({ connectionString: process.env.DATABASE_URL });
db.on("error", (err) => console.error("the database closed a connection:", err.message));

// shards are those that this pod has: each one's epoch, and its carts by their id.
const shards = new Map();

// fenced: another pod has the shard.
class Fenced extends Error {}

async function createTable() {
  try {
    await db.query("CREATE TABLE IF NOT EXISTS carts (id text PRIMARY KEY, epoch bigint NOT NULL, items jsonb NOT NULL)");
  } catch (err) {
    if (err.code !== "23505") throw err; // another pod has just created it
  }
}

// held returns the shard of a request. What is in memory from before this epoch may be old: others had the shard since.
function held(request) {
  const shard = Number(request.headers["stateful-shard"]);
  const epoch = Number(request.headers["stateful-epoch"]);
  let mine = shards.get(shard);
  if (!mine || mine.epoch < epoch) {
    mine = { epoch, carts: new Map() };
    shards.set(shard, mine);
  }
  if (epoch < mine.epoch) throw new Fenced();
  return mine;
}

// of returns the items of a cart. It reads them once.
function of(mine, id) {
  if (!mine.carts.has(id)) {
    const reading = db.query("SELECT items FROM carts WHERE id = $1", [id]).then((r) => r.rows[0]?.items ?? {});
    mine.carts.set(id, reading);
    reading.catch(() => mine.carts.delete(id)); // the next request tries again
  }
  return mine.carts.get(id);
}

// add changes a cart: first in the database, then in memory. One change comes after the other.
function add(mine, id, { item, quantity }) {
  const changing = of(mine, id).then(async (items) => {
    const next = { ...items, [item]: (items[item] ?? 0) + quantity };
    const { rowCount } = await db.query(
      `INSERT INTO carts (id, epoch, items) VALUES ($1, $2, $3)
       ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, items = excluded.items WHERE carts.epoch <= excluded.epoch`,
      [id, mine.epoch, next],
    );
    if (rowCount === 0) throw new Fenced();
    return next;
  });
  mine.carts.set(id, changing);
  changing.catch(() => mine.carts.delete(id)); // what the database has is unknown
  return changing;
}

async function body(request) {
  let text = "";
  for await (const part of request) {
    text += part;
    if (text.length > 10_000) throw new SyntaxError("the body is too long");
  }
  return JSON.parse(text);
}

async function answer(request) {
  const path = new URL(request.url, "http://cart").pathname;
  if (request.method === "POST" && path === "/.stateful/release") {
    shards.delete((await body(request)).shard); // all of it is in the database
    return [200, {}];
  }
  const id = /^\/carts\/([^/]+)$/.exec(path)?.[1];
  if (!id) return [404, { error: "ask for /carts/{id}" }];
  if (!request.headers["stateful-epoch"]) return [500, { error: "this pod has no sidecar" }];
  if (request.method === "GET") return [200, await of(held(request), id)];
  if (request.method !== "POST") return [405, { error: "GET or POST" }];
  const change = await body(request);
  if (typeof change.item !== "string" || !Number.isInteger(change.quantity)) {
    return [400, { error: 'the body must look like {"item": "book", "quantity": 1}' }];
  }
  return [200, await add(held(request), id, change)];
}

const server = http.createServer(async (request, response) => {
  let status, result;
  try {
    [status, result] = await answer(request);
  } catch (err) {
    [status, result] = [500, { error: err.message }];
    if (err instanceof SyntaxError) status = 400;
    if (err instanceof Fenced) {
      shards.delete(Number(request.headers["stateful-shard"]));
      [status, result] = [503, { error: "another pod has this cart" }];
    }
  }
  response.writeHead(status, { "content-type": "application/json", "x-handled-by": process.env.HOSTNAME ?? "" });
  response.end(JSON.stringify(result));
});

await createTable();
server.listen(Number(process.env.PORT ?? 8080), process.env.ADDRESS);
process.on("SIGTERM", () => server.close(() => db.end()));
