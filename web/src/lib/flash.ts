import type { Attachment } from 'svelte/attachments';

/** Tints an element for a moment when a number moves, in the colour of the direction. */
export function flash(value: () => number | undefined): Attachment<HTMLElement> {
  const still = matchMedia('(prefers-reduced-motion: reduce)');
  let previous: number | undefined;
  return (element) => {
    const now = value();
    if (previous !== undefined && now !== undefined && now !== previous && !still.matches) {
      const tint = now > previous ? 'var(--bid-bar)' : 'var(--ask-bar)';
      element.animate([{ background: tint }, { background: 'transparent' }], {
        duration: 700,
        easing: 'ease-out',
      });
    }
    previous = now;
  };
}
