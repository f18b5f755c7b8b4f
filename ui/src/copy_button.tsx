import {useEffect, useState} from 'preact/hooks';

// Says that it has copied, for a moment. Without a clipboard (a page not served over https or from
// this machine has none) there is no button.
export function CopyButton({text, label}: {text: string; label: string}) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [copied]);
  if (!navigator.clipboard) return null;
  return (
    <button
      type="button"
      class="quiet"
      aria-label={label}
      onClick={() => {
        navigator.clipboard.writeText(text).then(
          () => setCopied(true),
          () => setCopied(false),
        );
      }}
    >
      {copied ? 'Copied' : 'Copy'}
    </button>
  );
}
