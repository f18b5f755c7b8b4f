import {defineConfig} from 'vite';

// The names in dist/ are fixed: the program embeds them, and git shows what changed.
export default defineConfig({
  esbuild: {jsx: 'automatic', jsxImportSource: 'preact'},
  build: {
    target: 'es2022',
    modulePreload: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      output: {
        entryFileNames: 'console.js',
        assetFileNames: 'console[extname]',
        inlineDynamicImports: true,
      },
    },
  },
  // `npm run dev` against a server that runs already.
  server: {proxy: {'/v1': 'http://127.0.0.1:8000', '/live': 'http://127.0.0.1:8000'}},
});
