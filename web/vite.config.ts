import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  plugins: [svelte()],
  build: {
    target: 'es2022',
    // Every asset stays a separate file, so a venue can serve the page with `default-src 'self'`.
    assetsInlineLimit: 0,
    // The licences of bundled packages are part of the page; the status bar links to them.
    license: { fileName: 'licences.txt' },
    modulePreload: { polyfill: false },
  },
  server: {
    proxy: { '/ws/api/v2': { target: 'ws://127.0.0.1:8700', ws: true } },
  },
  test: { include: ['tests/**/*.test.ts'] },
});
