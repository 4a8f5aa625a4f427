// SQLite of the runtime, or of better-sqlite3 in the connector's folder where the runtime has none.
import { createRequire } from 'node:module';

const requireOwn = createRequire(`${process.cwd()}/`);

async function create(path) {
  if (globalThis.Bun) return new (await import('bun:sqlite')).Database(path, { safeIntegers: true });
  if (Number(process.versions.node.split('.')[0]) >= 24) {
    return new (await import('node:sqlite')).DatabaseSync(path);
  }
  return requireOwn('better-sqlite3')(path);
}

export async function openDatabase(path) {
  const file = await create(path);
  return {
    exec: (text) => file.exec(text),
    prepare: (text) => file.prepare(text),
    // Runs `step` in a transaction.
    transact(step) {
      file.exec('BEGIN');
      try {
        step();
        file.exec('COMMIT');
      } catch (error) {
        try {
          file.exec('ROLLBACK');
        } catch {
          // SQLite has rolled back by itself.
        }
        throw error;
      }
    },
    close: () => file.close(),
  };
}
